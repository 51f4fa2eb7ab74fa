"""Where live audio comes from: microphones, the network, browsers, files, pipes."""
