// Compiles the contracts and writes their artifacts; ConditionalTokens must come out as published.
//
//     node build.mjs INSTALLED [TARGET]
//
// INSTALLED is where npm has put what package.json names; no network is needed any more. NAME.json
// is written into TARGET, which is the folder of this file unless told otherwise.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(resolve(process.argv[2]), "node_modules");
const target = resolve(process.argv[3] ?? here);
const require = createRequire(join(modules, "here.js"));

const OURS = ["TestDollar", "WrappedCollateral", "Exchange"];
const SETTINGS = { optimizer: { enabled: true, runs: 200 }, evmVersion: "cancun" };
// The other pipeline saves 6,000 gas a trade.
const SETTINGS_OF = { Exchange: { ...SETTINGS, viaIR: true } };
const GNOSIS = "@gnosis.pm/conditional-tokens-contracts";
const OUTPUT = ["abi", "metadata", "evm.bytecode.object", "evm.deployedBytecode.object"];

// Give the bytes of what an import names.
function source(name) {
  return readFileSync(join(name.includes("/") ? modules : here, name), "utf8");
}

// Compile one contract: sources by name, and how imports that are not among them are found.
function compiled(solc, file, contract, sources, settings, find) {
  const input = {
    language: "Solidity",
    sources,
    settings: { ...settings, outputSelection: { [file]: { [contract]: OUTPUT } } },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input), find));
  const errors = (output.errors ?? []).filter((error) => error.severity === "error");
  if (errors.length > 0) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
  return output.contracts[file][contract];
}

// Write what the package needs to know of a contract.
function write(contract, output, settings, text) {
  const metadata = JSON.parse(output.metadata);
  const sources = {};
  for (const name of Object.keys(metadata.sources).sort()) {
    const digest = createHash("sha256").update(text(name)).digest("hex");
    sources[short(name)] = digest;
  }
  const artifact = {
    contractName: contract,
    compiler: { version: metadata.compiler.version, settings },
    sources,
    abi: output.abi,
    bytecode: `0x${output.evm.bytecode.object}`,
    deployedBytecode: `0x${output.evm.deployedBytecode.object}`,
  };
  writeFileSync(join(target, `${contract}.json`), `${JSON.stringify(artifact, null, 1)}\n`);
}

// Name a source below node_modules. The published metadata has the folder of whoever compiled it.
function short(name) {
  const [, inside] = name.split("/conditional-tokens-contracts/");
  return inside === undefined ? name : `${GNOSIS}/${inside}`;
}

function buildOurs() {
  const solc = require("solc");
  const find = { import: (name) => ({ contents: source(name) }) };
  for (const contract of OURS) {
    const file = `${contract}.sol`;
    const sources = { [file]: { content: source(file) } };
    const settings = SETTINGS_OF[contract] ?? SETTINGS;
    write(contract, compiled(solc, file, contract, sources, settings, find), settings, source);
  }
}

// The names of the sources are part of what the compiler hashes, so they are taken as published.
function buildGnosis() {
  const contract = "ConditionalTokens";
  const published = JSON.parse(source(`${GNOSIS}/build/contracts/${contract}.json`));
  const { sources, settings } = JSON.parse(published.metadata);
  const [file] = Object.keys(settings.compilationTarget);
  const { evmVersion, optimizer } = settings;
  const texts = {};
  for (const name of Object.keys(sources)) texts[name] = { content: source(short(name)) };
  const solc = require("solc-0.5");
  const output = compiled(solc, file, contract, texts, { evmVersion, optimizer }, undefined);
  const { bytecode, deployedBytecode } = output.evm;
  if (`0x${bytecode.object}` !== published.bytecode) throw new Error("creation code differs");
  if (`0x${deployedBytecode.object}` !== published.deployedBytecode) {
    throw new Error("runtime code differs");
  }
  write(contract, output, { evmVersion, optimizer }, (name) => source(short(name)));
}

buildOurs();
buildGnosis();
