// Sends the options of standard input (body, path) with a generated client, and prints the answer.
// Arguments: the folder of the client, the server's URL, the name of the operation.
const { readFileSync } = require("node:fs");
const [folder, baseUrl, operation] = process.argv.slice(2);
const sdk = require(`${folder}/index.js`);
const { client } = require(`${folder}/client.gen.js`);

client.setConfig({ baseUrl });
sdk[operation](JSON.parse(readFileSync(0, "utf8"))).then(({ data, error }) => {
  process.stdout.write(JSON.stringify({ data, error }));
});
