// Reads jobs as JSON lines and writes one answer per job, in the same order.
import { createInterface } from "node:readline";

export async function answer(work) {
  for await (const line of createInterface({ input: process.stdin })) {
    let message;
    try {
      message = { answer: await work(JSON.parse(line)) };
    } catch (error) {
      message = { error: error.stack };
    }
    process.stdout.write(`${JSON.stringify(message)}\n`);
  }
}
