/** Where configurations are unless told otherwise. */
export const AGENT_CONFIG_PATH = "/etc/llmgw/agent.yaml";
export const SERVER_CONFIG_PATH = "/etc/llmgw/server.yaml";
