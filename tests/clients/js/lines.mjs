// Answers JSON lines with JSON lines: one job in, one answer out, in the same sequence.
import { createInterface } from "node:readline";

export async function answer(work) {
  for await (const line of createInterface({ input: process.stdin })) {
    let told;
    try {
      told = { answer: await work(JSON.parse(line)) };
    } catch (error) {
      told = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
}
