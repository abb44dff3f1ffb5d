// A rehearsal by the built library, which prints as JSON what each of its phases took: wall time, processor time of this process, of its
// children (with the server of a clone on its own) and of the target's server, and statements of ours. Linux only.
//
//     node test/bench/rehearse-phases.mjs FOLDER-OF-DIST URL METHOD PID-OF-A-BACKEND COMMAND...
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const [dist, url, method, backend, ...command] = process.argv.slice(2);
const TICK_MS = 10;

/** Processor time of a process, and of its children that have ended, in ms; undefined if it has ended itself. */
function timesOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [user, system, endedUser, endedSystem] = fields
      .slice(11, 15)
      .map((ticks) => Number(ticks) * TICK_MS);
    return { parent: Number(fields[1]), own: user + system, ended: endedUser + endedSystem };
  } catch {
    return undefined;
  }
}

function allTimes() {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return new Map(pids.map((pid) => [Number(pid), timesOf(pid)]).filter(([, times]) => times));
}

/** Processor time of all that descends from a process. */
function below(pid, times) {
  const children = [...times].filter(([, { parent }]) => parent === pid);
  const sums = children.map(([child, { own, ended }]) => own + ended + below(child, times));
  return sums.reduce((sum, each) => sum + each, 0);
}

const postmaster = timesOf(backend).parent;
let statements = 0;

function now() {
  const { user, system } = process.cpuUsage();
  const times = allTimes();
  const server = times.get(postmaster);
  return {
    'wall ms': performance.now(),
    'ours ms': (user + system) / 1000,
    'children ms': (times.get(process.pid)?.ended ?? 0) + below(process.pid, times),
    'server ms': server.own + server.ended + below(postmaster, times),
    statements,
  };
}

const phases = new Map();
let last = { 'wall ms': 0, 'ours ms': 0, 'children ms': 0, 'server ms': now()['server ms'], statements: 0 };

/** Ends a part of the run. */
function end(phase) {
  const current = now();
  const had = phases.get(phase) ?? {};
  const taken = Object.entries(current).map(([key, value]) => [key, (had[key] ?? 0) + value - last[key]]);
  phases.set(phase, Object.fromEntries(taken));
  // Looking at all processes takes time itself.
  const { user, system } = process.cpuUsage();
  last = { ...current, 'wall ms': performance.now(), 'ours ms': (user + system) / 1000 };
}

const { rehearse } = await import(path.resolve(dist, 'index.js'));
end('loading');
const { verdict } = await rehearse({
  command,
  env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: url },
  clone: { method },
  audit: () => {
    statements += 1;
  },
  emit: ({ type, phase }) => {
    if (type === 'phase') end('between');
    if (type === 'phase-end') end(phase);
  },
});
end('between');
if (!verdict.pass) throw new Error(JSON.stringify(verdict));
process.stdout.write(JSON.stringify([...phases].map(([phase, taken]) => ({ phase, ...taken }))));
