// Signs orders with each client and returns the order it would post.
import { Wallet as OldWallet } from "@ethersproject/wallet";
import { ExchangeOrderBuilder as ViemBuilder, OrderBuilder, getContractConfig }
  from "@polymarket/clob-client";
import { orderToJson } from "@polymarket/clob-client/dist/utilities.js";
import { ExchangeOrderBuilder as EthersBuilder } from "@polymarket/order-utils";
import { Wallet, getBytes } from "ethers";
import { createWalletClient, custom } from "viem";
import { privateKeyToAccount } from "viem/accounts";

import { answer } from "./lines.mjs";

const transport = custom({ request: () => { throw new Error("no network in tests"); } });
const viemWallet = (key) => createWalletClient({ account: privateKeyToAccount(key), transport });

// A builder with another domain name, which is a constant of this one method.
const named = (Builder) => class extends Builder {
  constructor(domain, signer, salt) {
    super(domain.verifyingContract, domain.chainId, signer, salt);
    this.named = domain;
  }

  buildOrderTypedData(order) {
    const typed = super.buildOrderTypedData(order);
    typed.domain.name = this.named.name;
    return typed;
  }
};
const Named = { "order-utils": named(EthersBuilder), "clob-client": named(ViemBuilder) };
const Shipped = { "order-utils": EthersBuilder, "clob-client": ViemBuilder };

function builder({ client, domain, shipped, key, order }) {
  const signer = client === "order-utils" ? new OldWallet(key) : viemWallet(key);
  const salt = () => order.salt;
  return shipped
    ? new Shipped[client](domain.verifyingContract, domain.chainId, signer, salt)
    : new Named[client](domain, signer, salt);
}

const { buildOrderTypedData } = ViemBuilder.prototype;
const { random } = Math;

// An order by clob-client's public interface: size and price in doubles. Chain and contract are from
// a table. The domain name is a constant, so the one method that has it is replaced.
async function userOrder({ kind, domain, shipped, key, signatureType, order, tick, chance }) {
  getContractConfig(80002).exchange = domain.verifyingContract;
  if (!shipped) {
    ViemBuilder.prototype.buildOrderTypedData = function (built) {
      const typed = buildOrderTypedData.call(this, built);
      Object.assign(typed.domain, domain);
      return typed;
    };
  }
  Math.random = () => chance;
  try {
    const made = new OrderBuilder(viemWallet(key), 80002, signatureType);
    const options = { tickSize: tick, negRisk: false };
    const signed = kind === "market"
      ? await made.buildMarketOrder(order, options)
      : await made.buildOrder(order, options);
    return orderToJson(signed, "owner", "GTC").order;
  } finally {
    ViemBuilder.prototype.buildOrderTypedData = buildOrderTypedData;
    Math.random = random;
  }
}

const kinds = {
  // An order as the builder returns it.
  build: (job) => builder(job).buildSignedOrder(job.order),
  // The order as the client posts it, with the salt as a JavaScript number.
  post: async (job) => orderToJson(await builder(job).buildSignedOrder(job.order), "o", "GTC").order,
  // The hash and the signature of a given order.
  hash: async (job) => {
    const made = builder(job);
    const typed = made.buildOrderTypedData(job.order);
    return { hash: made.buildOrderHash(typed), signature: await made.buildOrderSignature(typed) };
  },
  limit: userOrder,
  market: userOrder,
  // A signature of typed data by a wallet in a browser.
  typed: async ({ by, key, text }) => {
    const { domain, types, primaryType, message } = JSON.parse(text);
    if (by === "viem") {
      return privateKeyToAccount(key).signTypedData({ domain, types, primaryType, message });
    }
    const { EIP712Domain: _, ...own } = types;
    return new Wallet(key).signTypedData(domain, own, message);
  },
  // The same with the salt as a JavaScript number.
  double: async ({ key, text }) => {
    const { domain, types, primaryType, message } = JSON.parse(text);
    message.salt = Number(message.salt);
    const signature = await privateKeyToAccount(key)
      .signTypedData({ domain, types, primaryType, message });
    return { salt: message.salt, signature };
  },
  personal: ({ by, key, digest }) => by === "viem"
    ? privateKeyToAccount(key).signMessage({ message: { raw: digest } })
    : new Wallet(key).signMessage(getBytes(digest)),
};

await answer((job) => kinds[job.kind](job));
