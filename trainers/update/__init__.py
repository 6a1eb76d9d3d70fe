"""Updates: values, advantages, gradients, critics and reference models."""
