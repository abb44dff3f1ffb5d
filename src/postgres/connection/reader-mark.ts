/** The end of each statement by which safemigrate reads rows of the user's, so that no reader of pg_stat_statements takes it for the application's. */
export const READER_MARK = '/* safemigrate */';
