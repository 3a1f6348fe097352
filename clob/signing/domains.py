"""The domains of exchanges in the wild, to recognise an order that was signed for one of them."""

from typing import Final

from clob.signing.domain import Domain

POLYMARKET = "Polymarket CTF Exchange"
PREDICT_FUN = "predict.fun CTF Exchange"

KNOWN_DOMAINS: Final[tuple[Domain, ...]] = (
    Domain(POLYMARKET, "1", 137, "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E"),
    Domain(POLYMARKET, "1", 137, "0xC5d563A36AE78145C45a50134d48A1215220f80a"),
    Domain(POLYMARKET, "1", 80002, "0xdFE02Eb6733538f8Ea35D585af8DE5958AD99E40"),
    Domain(POLYMARKET, "1", 80002, "0xC5d563A36AE78145C45a50134d48A1215220f80a"),
    Domain(POLYMARKET, "2", 137, "0xE111180000d2663C0091e4f400237545B87B996B"),
    Domain(POLYMARKET, "2", 137, "0xe2222d279d744050d28e00520010520000310F59"),
    Domain(PREDICT_FUN, "1", 56, "0x8BC070BEdAB741406F4B1Eb65A72bee27894B689"),
    Domain(PREDICT_FUN, "1", 97, "0x2A6413639BD3d73a20ed8C95F634Ce198ABbd2d7"),
)
"""Published domains of exchanges with the same order struct; not all that there are."""
