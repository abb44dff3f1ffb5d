export type Format = 'text' | 'html' | 'markdown';

/** The same reason for each of these names below a path. */
function below(path: string, names: string, reason: string): Record<string, string> {
  return Object.fromEntries(names.split(' ').map((name) => [`${path}.${name}`, reason]));
}

const PAGE = 'drawn or listed on the page (HTML), too much for other formats';
const SENTENCE = 'only what happened with the guardrails is shown, in a sentence';

/** Of the run with guardrails no format shows these; each has its own reason. */
const guarded = (reason: string) => ({
  ...below('load.guarded', 'clients recoveryMs', reason),
  ...below('load.guarded.command', 'schemaEqual', reason),
  ...below('load.guarded.seconds[]', 'p50Ms maxMs', reason),
  ...below('load.guarded.blocked[]', 'relation sql blockedMs sessions longestMs', reason),
  ...below('load.guarded.failures[]', 'sqlstate message count', reason),
  ...below('load.guarded.deadlocks[]', 'statement sql detail', reason),
  ...below('load.guarded.connections', 'most limit', reason),
  ...below('load.guarded.pool', 'needed open limit', reason),
  ...below('load.guarded.guardrails.retries[]', 'causes[] pausedMs', reason),
  ...below('load.guarded.guardrails.cancelled[]', 'outcome reason waitedMs', reason),
  ...below('load.guarded.guardrails.diverged[]', 'sql stopped onlyValues', reason),
  ...below('load.guarded.guardrails.ownTimeouts[]', 'setting value where', reason),
  ...below(
    'load.guarded.guardrails.blockers[]',
    'pid user application state query since blocked ended',
    reason,
  ),
  ...below('load.guarded.guardrails', 'pausedMs laggedMs', reason),
});

/** What text and Markdown leave to the page. */
const ONLY_ON_THE_PAGE = {
  'swap.online.lag[].atMs': 'drawn on the page (HTML); the largest distance is shown',
  'swap.online.cutOverAtMs': 'drawn on the page (HTML); the durations are shown',
  ...below('statements[]', 'session startedAt', PAGE),
  ...below('statements[].repeated', 'lastStartedAt', PAGE),
  ...below('schema', 'objects[] objectsLeftOut', PAGE),
  ...below('forecast.wal', 'writtenBytes', PAGE),
  ...below('forecast.wal.standbys[]', 'lagMs', PAGE),
  ...below('load', 'startedAt seconds[] transactions[] statements[]', PAGE),
  ...below('load.command', 'startedMs endedMs', PAGE),
  ...below('proposal', 'transactions[] statements[]', PAGE),
  ...below('transactions[]', 'transaction session startedAt endedAt outcome', PAGE),
  ...guarded(SENTENCE),
  ...below('load.guarded', 'startedAt statements[]', SENTENCE),
  ...below('load.guarded.command', 'startedMs endedMs', SENTENCE),
  ...below('load.guarded.before', 'durationMs transactions failures p50Ms p95Ms p99Ms maxMs', SENTENCE),
  ...below('load.guarded.during', 'durationMs transactions p50Ms p95Ms p99Ms maxMs', SENTENCE),
  ...below('load.guarded.after', 'durationMs transactions p50Ms p95Ms p99Ms maxMs', SENTENCE),
  ...below('load.guarded.seconds[]', 'atMs durationMs transactions failures p95Ms waiting', SENTENCE),
  ...below('load.guarded.transactions[]', 'transaction session startedAt endedAt outcome', SENTENCE),
  ...below('load.guarded.guardrails.retries[]', 'sql outcome', SENTENCE),
  ...below('load.guarded.guardrails.cancelled[]', 'sql waiting', SENTENCE),
};

/**
 * Paths that a format leaves out on purpose, with the reason. A path stands for all below it; `all` for every format. The JSON
 * report has everything.
 */
export const NOT_SHOWN: Readonly<Record<Format | 'all', Readonly<Record<string, string>>>> = {
  all: {
    exitCode: 'for programs; the verdict says it',
    'hazards[].lostRows': 'the evidence says it',
    'hazards[].saferForm': 'the hint below the hazards says it',
    'verdict.objections[].statement': 'the statement of the hazard is shown',
    'target.unchanged': 'false comes with changes, and null with a caveat; both are shown',
    'target.sessions': 'the counts behind target.unchanged',
    'target.sessionSettings': 'hashes, which an apply compares',
    'clone.isolation': 'clone.containment says it in more detail',
    'clone.considered[]': 'clone.reason says why the method was chosen',
    'profile.serverVersion': 'the report names the profile; the profile has the rest',
    'profile.relations': 'the report names the profile; the profile has the rest',
    'statements[].note': 'for the forms of a proposal, which say it in words',
    'statements[].tag': 'the SQL says it',
    'statements[].error.where': 'the message, the detail and the hint are shown',
    'statements[].error.internalQuery': 'the message, the detail and the hint are shown',
    'statements[].error.schema': 'the message names it',
    'statements[].error.table': 'the message names it',
    'statements[].error.column': 'the message names it',
    'statements[].error.dataType': 'the message names it',
    'statements[].error.constraint': 'the message names it',
    'statements[].warnings[]': 'the hazard SERVER_WARNING says it',
    'statements[].locks[].acquiredBy': 'the statement is shown',
    'statements[].locks[].byRule': 'the exactness of the statement is shown',
    'statements[].locks[].atProductionSize.ms': 'the range is shown',
    'statements[].locks[].atProductionSize.basis': 'the range is shown',
    'statements[].atProductionSize.ms': 'the range is shown',
    'statements[].atProductionSize.basis': 'the range is shown',
    'statements[].rowsAtProductionSize': 'the time at that size is shown',
    'statements[].repeated.likenesses[]': 'the number of repetitions is shown',
    'statements[].repeated.minMs': 'the mean and the longest time are shown',
    'statements[].repeated.lastIndex': 'the first index is shown',
    'data.converted[].distinctBefore': 'the words say what follows from it',
    'data.converted[].distinctAfter': 'the words say what follows from it',
    'data.overwritten[].distinctBefore': 'the words say what follows from it',
    'data.overwritten[].distinctAfter': 'the words say what follows from it',
    'forecast.locks[].atProductionSize.ms': 'the range is shown',
    'forecast.locks[].atProductionSize.basis': 'the range is shown',
    'forecast.locks[].ratesFrom': 'the rates are shown',
    'forecast.locks[].waitsFor.mode': 'the transaction that is waited for is shown',
    'queries.broken[].calls': 'the calls a second are shown',
    'queries.refused[].calls': 'the calls a second are shown',
    'queries.changedRow[].calls': 'the calls a second are shown',
    'queries.slower[].calls': 'the calls a second are shown',
    'checks[].rowsBefore': 'the rows that differ are shown',
    'rerun.statements[]': 'what the run left is shown',
    'down.statements[]': 'what the run left is shown',
    'load.command.schemaEqual': 'the schema of the first run is shown',
    'load.seconds[].p50Ms': 'the 95th percentile is shown',
    'load.seconds[].maxMs': 'the 95th percentile is shown',
    'load.guarded.lockWaits': 'who waited behind the command is shown',
    'swap.rolledBack': 'of a rollback, whose own output says it',
    'swap.givenUp': 'of a rollback, whose own output says it',
    'apply.receipt.finishedAt': 'its age is shown',
    'apply.finishedAt': 'the start and the duration are shown',
    'apply.attempts[].startedAt': 'the durations and pauses are shown',
    'apply.attempts[].firstStatement': 'the statement that failed is shown',
    'apply.attempts[].committed[]': 'their number is shown',
    'apply.transactions[]': 'the effects of the statements are shown',
    'apply.during.cancelled[].reason': 'whom the statement blocked is shown',
    'apply.fingerprints': 'whether the schema is as rehearsed is shown',
    'apply.comparedTimes[].rehearsed': 'the statement has its number on the target',
    'apply.committed[].explicit': 'the outcome is shown',
    'apply.rolledBack[].explicit': 'the outcome is shown',
    'cleanup.done[]': 'only what is left behind asks for something',
  },
  text: { ...ONLY_ON_THE_PAGE, 'schema.rollbackSql': 'its length and its path in the JSON report are shown' },
  html: {
    'statements[].locks[].indexOf': 'the relation of the lock is shown',
    ...guarded('the page compares both runs by the other figures'),
  },
  markdown: { ...ONLY_ON_THE_PAGE, 'statements[].locks[].indexOf': 'the relation of the lock is shown' },
};
