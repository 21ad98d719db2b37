"""What fitted models say of their data: deviances, inference, and which features to trust."""
