"""LoRA layers, their files and copies."""
