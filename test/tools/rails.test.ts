import { testTool } from './suite.ts';

await testTool('rails');
