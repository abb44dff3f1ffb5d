import { access, constants } from 'node:fs/promises';

const PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** A Chromium that is installed here; null where there is none. */
export async function findBrowser(): Promise<string | null> {
  for (const place of PLACES) {
    try {
      await access(place, constants.X_OK);
      return place;
    } catch {}
  }
  return null;
}
