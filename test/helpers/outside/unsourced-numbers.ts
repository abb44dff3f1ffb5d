/** Numbers of the report that nobody else measures, or not here, and why. */
export const UNSOURCED_NUMBERS: readonly { readonly paths: RegExp; readonly reason: string }[] = [
  {
    paths:
      /(^version|\.port|[pP]id|\.(index|session|line|lastIndex|position|transaction|statement|hazard)|swallowedErrors\[\]|\.statement\.\w+|xid)$/,
    reason: 'it names something: a place, a process, a statement',
  },
  {
    paths: /(^|\.)exitCode$/,
    reason: 'it is what the process ended with; test/e2e compares it',
  },
  {
    paths: /[aA]tProductionSize/,
    reason: 'an estimate by a profile, with its lower and upper end',
  },
  { paths: /^profile\./, reason: 'it is read from the profile' },
  {
    paths: /^forecast\./,
    reason:
      'an estimate of what the target would feel, from its own statistics and from numbers of this table',
  },
  {
    paths: /\.repeated\./,
    reason:
      'sums, ends and quantiles of `statements[].durationMs`, over statements that are not listed one by one',
  },
  {
    paths: /^target\.sessions\./,
    reason:
      'counts of sessions; test/traffic and test/isolation compare them with the clients that they start',
  },
  {
    paths: /^(clone\.uniqueBytes|command\.(endedForMemory|isolation\.|leftRunning))/,
    reason: 'of the file system and the kernel; test/zfs and test/isolation compare them',
  },
  {
    paths: /^(schema\.objectsLeftOut|data\.unchangedTables)$/,
    reason: 'it counts what is not listed',
  },
  {
    paths: /^data\.(converted|overwritten)\[\]|^data\.lost\[\]\.(rowsCompared|copy)/,
    reason:
      'counts of values that were compared, as each says; test/postgres/observe has rows with known answers',
  },
  {
    paths: /^(hazards|verdict\.objections)\[\]\.(lostRows|lockedMs)$/,
    reason: 'the same as in `data.lost` and `statements[].locks`',
  },
  {
    paths: /^(queries|checks)\b/,
    reason: 'counts of queries and rows of the user’s; test/e2e/checks has known ones',
  },
  {
    paths: /^(rerun|down|atOnce|app|proposal|script)\b/,
    reason: 'of further runs, by the code that makes the numbers of the first one',
  },
  {
    paths: /^load\./,
    reason:
      'latencies and counts of the load’s own transactions, which are none of the command’s; waits behind the command are in the table',
  },
  {
    paths: /^(apply|swap)\b/,
    reason: 'of the target itself: test/e2e, test/swaps and test/traffic compare them with their clients',
  },
];
