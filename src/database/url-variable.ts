/** The environment variable that names the target if no other one is given. */
export const DEFAULT_URL_VARIABLE = 'DATABASE_URL';
