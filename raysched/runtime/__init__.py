"""The body that runs on Ray: scheduler actor, placement groups, trainer."""
