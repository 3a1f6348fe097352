// Checks signatures with ethers and viem: the digest each makes, and if each believes the signature.
import { TypedDataEncoder, getBytes, verifyMessage, verifyTypedData } from "ethers";
import { hashTypedData, verifyMessage as viemMessage, verifyTypedData as viemTyped } from "viem";

import { answer } from "./lines.mjs";

// A signature that nobody can have made is an error of either library.
async function believes(check) {
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
    ethers: await believes(() => address === (personal
      ? verifyMessage(getBytes(raw), signature)
      : verifyTypedData(domain, own, message, signature))),
    viem: await believes(() => personal
      ? viemMessage({ address, message: { raw }, signature })
      : viemTyped({ address, domain, types, primaryType, message, signature })),
  };
});
