// Checks signatures with ethers and viem: the digest of each, and whether it accepts the signature.
import { TypedDataEncoder, getBytes, verifyMessage, verifyTypedData } from "ethers";
import { hashTypedData, verifyMessage as viemMessage, verifyTypedData as viemTyped } from "viem";

import { answer } from "./lines.mjs";

// Both libraries throw on malformed signatures.
async function accepts(check) {
  try {
    return await check();
  } catch {
    return false;
  }
}

await answer(async ({ typed, personal, signature, address }) => {
  const { domain, types, primaryType, message } = typed;
  const { EIP712Domain: _, ...own } = types;
  const hash = TypedDataEncoder.hash(domain, own, message);
  const raw = hash;
  return {
    ethersHash: hash,
    viemHash: hashTypedData({ domain, types, primaryType, message }),
    ethers: await accepts(() => address === (personal
      ? verifyMessage(getBytes(raw), signature)
      : verifyTypedData(domain, own, message, signature))),
    viem: await accepts(() => personal
      ? viemMessage({ address, message: { raw }, signature })
      : viemTyped({ address, domain, types, primaryType, message, signature })),
  };
});
