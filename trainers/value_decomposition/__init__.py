"""Value mixing: VDN and QMIX, over actions that can be listed and over sampled sentences."""
