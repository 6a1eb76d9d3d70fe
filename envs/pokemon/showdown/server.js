'use strict';
// Starts the package's own server from the folder named by the first argument. Palaver holds our standard input: it
// closes when Palaver ends, however that comes about, and the server's other processes end with their channel to us.
const path = require('path');
process.stdin.on('end', () => process.exit(0)).resume();
require(path.join(process.argv[2], 'dist', 'server', 'index.js'));
