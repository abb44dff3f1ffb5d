// The main program of the single executable: loads our modules, which are assets inside it, when they are first needed.
const path = require('node:path');
const { getAsset } = require('node:sea');
const { compileFunction } = require('node:vm');

const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];
const FILE = process.execPath;
const loaded = new Map();

function load(name) {
  const known = loaded.get(name);
  if (known) return known.exports;
  const module = { exports: {} };
  loaded.set(name, module);
  const requireFrom = (word) =>
    word.startsWith('.') ? load(path.posix.join(path.posix.dirname(name), word)) : require(word);
  const run = compileFunction(getAsset(name, 'utf8'), PARAMETERS, { filename: `safemigrate/${name}` });
  run(module.exports, requireFrom, module, FILE, path.dirname(FILE));
  return module.exports;
}

load('cli/standalone.cjs');
