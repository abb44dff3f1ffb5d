/** What `npm run soak` sets: all of a long table is run, of which other runs take a part that stays the same. */
export const EVERYTHING = process.env.SAFEMIGRATE_TEST_EVERYTHING === '1';
