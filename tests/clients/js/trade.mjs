// Calls methods of an unmodified clob-client against a server, signed in as a wallet.
import { Wallet } from "@ethersproject/wallet";
import { ClobClient } from "@polymarket/clob-client";
import { createWalletClient, custom } from "viem";
import { privateKeyToAccount } from "viem/accounts";

import { answer } from "./lines.mjs";

const transport = custom({ request: () => { throw new Error("no chain in tests"); } });
const signers = {
  ethers: (key) => new Wallet(key),
  viem: (key) => createWalletClient({ account: privateKeyToAccount(key), transport }),
};
const clients = new Map();

async function clientOf({ url, chain, key, wallet }) {
  const name = [url, key, wallet].join();
  if (!clients.has(name)) {
    const signer = signers[wallet](key);
    const credentials = await new ClobClient(url, chain, signer).createOrDeriveApiKey();
    clients.set(name, new ClobClient(url, chain, signer, credentials));
  }
  return clients.get(name);
}

await answer(async ({ method, args, ...login }) => {
  const client = await clientOf(login);
  return (await client[method](...args)) ?? null;
});
