// node summary.mjs FOLDER FAILED_STEPS: says where the time went, adds up vitest's results, names each failed test with its error, and
// prints `N passed, N failed`; exits with 1 on failures. The names stand at the end because of a log's hundred thousand lines often
// only the last are kept.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { timingsOf } from './timings.mjs';

const [folder = '.', failedSteps = '0'] = process.argv.slice(2);
let passed = 0;
let failed = Number(failedSteps);

console.log(timingsOf(folder));
console.log(`share of the long lists: SAFEMIGRATE_TEST_SHARE=${process.env.SAFEMIGRATE_TEST_SHARE}`);

for (const file of readdirSync(folder).filter((name) => name.endsWith('.status'))) {
  const exitCode = Number(readFileSync(`${folder}/${file}`, 'utf8'));
  const json = `${folder}/${file.replace(/status$/, 'json')}`;
  let failedHere = 0;
  if (existsSync(json)) {
    const results = JSON.parse(readFileSync(json, 'utf8'));
    passed += results.numPassedTests;
    failedHere = results.numFailedTests;
    for (const { name, assertionResults } of results.testResults) {
      for (const test of assertionResults.filter(({ status }) => status === 'failed')) {
        console.log(`failed: ${name} > ${test.fullName}\n${test.failureMessages.join('\n')}`);
      }
    }
    // A file that does not load, or that leaves something behind, fails without a failed test.
    for (const { status, name, message, assertionResults } of results.testResults) {
      if (status !== 'failed' || assertionResults.some((test) => test.status === 'failed')) continue;
      failedHere += 1;
      console.log(`failed as a whole: ${name}\n${message}`);
    }
    if (results.numPendingTests > 0) console.log(`${results.numPendingTests} skipped`);
  }
  const hasFailedAsAWhole = exitCode !== 0 && failedHere === 0;
  if (hasFailedAsAWhole) console.log(`failed: ${file}, although no test did: see "Unhandled Errors" there`);
  failed += hasFailedAsAWhole ? 1 : failedHere;
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
