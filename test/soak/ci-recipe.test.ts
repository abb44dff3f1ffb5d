import { testRecipes } from '../helpers/ci-recipe.ts';

// docs/ci-recipe.test.ts has the other tools of the recipe.
testRecipes(['Drizzle', 'Alembic', 'Flyway', 'Rails'], async () => {});
