// What both Node programs share: one line per check, and comparing.
import { isDeepStrictEqual, inspect } from "node:util";

export const port = Number(process.argv[2]);
let failed = false;

export async function check(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed = true;
    console.log(`not ok ${name}: ${error.message}`);
  }
}

export function same(got, expected) {
  if (!isDeepStrictEqual(got, expected)) throw new Error(`expected ${inspect(expected)}, got ${inspect(got)}`);
}

export async function fails(promise, text) {
  let error;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  if (!error) throw new Error(`no error where one with "${text}" was expected`);
  if (!String(error.message).includes(text)) throw new Error(`expected an error with "${text}", got "${error.message}"`);
}

export async function until(condition) {
  const deadline = Date.now() + 5000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error("it did not happen in time");
    await new Promise(setImmediate); // lets messages come in where the condition itself asks nothing
  }
}

export const binary = Buffer.from(Array.from({ length: 65536 }, (_, n) => n & 255));

export function finish() {
  process.exit(failed ? 1 : 0);
}
