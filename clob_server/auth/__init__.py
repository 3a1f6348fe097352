"""Identity and limits of callers: API keys, tokens, permissions, rate limits."""
