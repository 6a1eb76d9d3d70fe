"""The commands of `palaver`, one file each."""
