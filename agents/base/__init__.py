"""Shared parts of agents: policies, chats and rewards."""
