// Computes the amounts that clob-client signs for a size and price, in 6 and in 18 decimals.
import { ROUNDING_CONFIG, getMarketOrderRawAmounts, getOrderRawAmounts }
  from "@polymarket/clob-client/dist/order-builder/helpers.js";
import { parseUnits } from "viem";

import { answer } from "./lines.mjs";

const units = (raw, decimals) => parseUnits(raw.toString(), decimals).toString();

await answer(({ kind, tick, side, size, price }) => {
  const amounts = kind === "market" ? getMarketOrderRawAmounts : getOrderRawAmounts;
  const { rawMakerAmt, rawTakerAmt } = amounts(side, size, price, ROUNDING_CONFIG[tick]);
  return [6, 18].map((decimals) => [units(rawMakerAmt, decimals), units(rawTakerAmt, decimals)]);
});
