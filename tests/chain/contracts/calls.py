"""Functions and events of the contracts for tests."""

from clob_server.chain.eth.abi import Event, Function

MINT = Function("mint(address,uint256)")
MINTER = Function("minter()", returns="address")
NAME = Function("name()", returns="string")
SYMBOL = Function("symbol()", returns="string")
DECIMALS = Function("decimals()", returns="uint8")
SUPPLY = Function("totalSupply()", returns="uint256")
BALANCE = Function("balanceOf(address)", returns="uint256")
ALLOWANCE = Function("allowance(address,address)", returns="uint256")
APPROVE = Function("approve(address,uint256)", returns="bool")
TRANSFER = Function("transfer(address,uint256)", returns="bool")
TRANSFER_FROM = Function("transferFrom(address,address,uint256)", returns="bool")

WRAP = Function("wrap(address,uint256)")
UNWRAP = Function("unwrap(address,uint256)")
STABLECOIN = Function("stablecoin()", returns="address")
UNIT = Function("UNIT()", returns="uint256")
NONCES = Function("nonces(address)", returns="uint256")
PERMIT = Function("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)")
SEPARATOR = Function("DOMAIN_SEPARATOR()", returns="bytes32")

PREPARE = Function("prepareCondition(address,bytes32,uint256)")
REPORT = Function("reportPayouts(bytes32,uint256[])")
SPLIT = Function("splitPosition(address,bytes32,bytes32,uint256[],uint256)")
MERGE = Function("mergePositions(address,bytes32,bytes32,uint256[],uint256)")
REDEEM = Function("redeemPositions(address,bytes32,bytes32,uint256[])")
SLOTS = Function("getOutcomeSlotCount(bytes32)", returns="uint256")
CONDITION_ID = Function("getConditionId(address,bytes32,uint256)", returns="bytes32")
COLLECTION_ID = Function("getCollectionId(bytes32,bytes32,uint256)", returns="bytes32")
POSITION_ID = Function("getPositionId(address,bytes32)", returns="uint256")
TOKENS = Function("balanceOf(address,uint256)", returns="uint256")
APPROVE_ALL = Function("setApprovalForAll(address,bool)")
SEND_TOKENS = Function("safeTransferFrom(address,address,uint256,uint256,bytes)")

TRANSFERRED = Event("Transfer(address indexed from, address indexed to, uint256 value)")
APPROVED = Event("Approval(address indexed owner, address indexed spender, uint256 value)")
PREPARED = Event(
    "ConditionPreparation(bytes32 indexed conditionId, address indexed oracle, "
    "bytes32 indexed questionId, uint256 outcomeSlotCount)"
)
SPLIT_DONE = Event(
    "PositionSplit(address indexed stakeholder, address collateralToken, "
    "bytes32 indexed parentCollectionId, bytes32 indexed conditionId, uint256[] partition, "
    "uint256 amount)"
)
TOKENS_SENT = Event(
    "TransferSingle(address indexed operator, address indexed from, address indexed to, "
    "uint256 id, uint256 value)"
)

ZERO = "0x" + 40 * "0"
ROOT = bytes(32)
MAX = 2**256 - 1
