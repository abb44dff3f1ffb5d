import { testTool } from './suite.ts';

await testTool('golang-migrate');
