import { testTool } from '../tools/suite.ts';

await testTool('sqlx');
