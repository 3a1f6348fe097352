"""Descriptions of the routes of the development wallets."""

from typing import Final

from clob.wire.info import CallResults, DevWallets, ReceiptBody, SentBody, SignatureBody
from clob_server.http.openapi import common

TAG: Final = "Development wallets"
HEX: Final[common.Schema] = {"type": "string", "pattern": "^0x([0-9a-fA-F]{2})*$"}
"""Bytes in hex."""
PAGES: Final = (
    "In the test environment only, and for pages of this server only, whatever `--cors-origins` "
    "lists."
)
CHAIN: Final = (
    "NOT_ON_THIS_ENVIRONMENT", "INVALID_ADDRESS", "CHAIN_NOT_CONFIGURED", "CHAIN_UNAVAILABLE",
    "REJECTED",
)  # fmt: skip
"""Errors of the routes that use the chain."""
CALL: Final = (
    common.FieldDoc("to", common.ADDRESS, "The contract.", True),
    common.FieldDoc("data", HEX, "Calldata.", True),
)

DESCRIBED: Final = {
    "list_dev_wallets": common.RouteDoc(
        TAG,
        "List the development wallets",
        DevWallets,
        f"Accounts of development chains; their private keys are public. {PAGES}",
        codes=("NOT_ON_THIS_ENVIRONMENT",),
    ),
    "sign_with_dev_wallet": common.RouteDoc(
        TAG,
        "Sign typed data with a development wallet",
        SignatureBody,
        "Signs the structs that this exchange reads, in its EIP-712 domain, and permits (EIP-2612) "
        f"of its collateral; the wallet must be the signer in the message. {PAGES}",
        body=common.record(
            common.FieldDoc(
                "primaryType",
                {
                    "enum": [
                        "Order",
                        "Cancel",
                        "CancelAll",
                        "Reduce",
                        "SetNonce",
                        "SetDelegate",
                        "Permit",
                    ]
                },
                "The struct.",
                True,
            ),
            common.FieldDoc("domain", {"type": "object"}, "The EIP-712 domain.", True),
            common.FieldDoc("message", {"type": "object"}, "The fields of the struct.", True),
            common.FieldDoc("types", {"type": "object"}, "The types; checked if present."),
        ),
        codes=(
            "NOT_ON_THIS_ENVIRONMENT",
            "NOT_FOUND",
            "INVALID_ADDRESS",
            "INVALID_AMOUNT",
            "AMOUNT_TOO_LARGE",
            "INVALID_SIDE",
            "CHAIN_NOT_CONFIGURED",
        ),
        example={
            "primaryType": "SetNonce",
            "domain": {
                "name": "clob",
                "version": "1",
                "chainId": 31337,
                "verifyingContract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
            },
            "message": {"maker": common.DEMO_USER, "nonce": "1"},
        },
    ),
    "send_from_dev_wallet": common.RouteDoc(
        TAG,
        "Send a transaction from a development wallet",
        SentBody,
        f"Responds once the node has accepted it. {PAGES}",
        body=common.record(*CALL, common.FieldDoc("value", common.WEI, "Ether to send, in wei.")),
        codes=(*CHAIN, "NOT_FOUND", "INVALID_AMOUNT", "AMOUNT_TOO_LARGE"),
        example={"to": common.DEMO_USER, "data": "0x", "value": "1"},
    ),
    "call_contracts": common.RouteDoc(
        TAG,
        "Read from contracts",
        CallResults,
        f"Runs up to 20 calls on the newest block, without a transaction. {PAGES}",
        body=common.record(
            common.FieldDoc(
                "calls",
                {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 20,
                    "items": common.record(*CALL),
                },
                "The calls.",
                True,
            )
        ),
        codes=CHAIN,
        example={"calls": [{"to": common.DEMO_USER, "data": "0x"}]},
    ),
    "get_receipt": common.RouteDoc(
        TAG,
        "Get the state of a transaction",
        ReceiptBody,
        PAGES,
        codes=(*CHAIN, "INVALID_FIELD"),
    ),
}
