"""What agents of all kinds share: policies, chats and rewards."""
