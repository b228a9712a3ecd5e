"""Sources of tools for the tool-calling solver: sandbox, Gym resource servers, MCP servers."""
