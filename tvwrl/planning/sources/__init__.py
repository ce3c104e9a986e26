"""Where provisioning instances come from: the published files, the Tianchi contest, traces, and generators."""
