"""Kinds of smooth f: how a point moves along a cycle on a fixed sample."""
