// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IConditionalTokens} from "./IConditionalTokens.sol";
import {Operated} from "./Operated.sol";
import {SignedOrders} from "./SignedOrders.sol";

/// @title Settles trades that the operator matched, as far as both makers signed for them.
/// @notice A fill moves what it says from one maker to the other, or nothing. The operator chooses
/// which orders meet, when, and at which price within what both signed; nothing else. This contract
/// holds nothing between transactions.
contract Exchange is SignedOrders, Operated, ReentrancyGuardTransient, IERC1155Receiver {
    using BitMaps for BitMaps.BitMap;
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice An order in a fill.
    /// @param signature as for `authorised`.
    /// @param wallet who pays the collateral of a buy, and gets that of a sale; zero is the maker.
    /// @param feeRateBps what is charged, at most what the order allows.
    struct Party {
        Order order;
        bytes signature;
        address wallet;
        uint256 feeRateBps;
    }

    /// @notice A trade, or the two trades of complementary tokens.
    /// @param tradeId its number; ids that follow one another are cheaper than others.
    /// @param price in hundredths of the collateral, for the token of the resting order.
    /// @param size in wei of tokens.
    struct Fill {
        uint256 tradeId;
        uint256 price;
        uint256 size;
        Party resting;
        Party incoming;
    }

    /// @notice The other outcome of a token's condition.
    struct Outcome {
        bytes32 conditionId;
        uint256 other;
    }

    /// @notice A fill was settled.
    event Settled(
        uint256 indexed tradeId,
        bytes32 restingHash,
        bytes32 incomingHash,
        uint256 price,
        uint256 size
    );
    /// @notice A fill moved nothing; the reason is what it reverted with, its first 256 bytes.
    event SettleFailed(uint256 indexed tradeId, bytes reason);
    /// @notice A fill had been settled before, and moved nothing.
    event SettledBefore(uint256 indexed tradeId);
    event ConditionRegistered(bytes32 indexed conditionId, uint256 yes, uint256 no);

    error TooManyFills(uint256 count, uint256 most);
    error TooLittleGas(uint256 left, uint256 needed);
    error PriceOutOfRange(uint256 price);
    error WrongPrice(bytes32 orderHash, uint256 price);
    error WrongSide(uint8 side);
    error TakerNotSupported(address taker);
    error Expired(bytes32 orderHash, uint256 expiration);
    error Cancelled(bytes32 orderHash);
    error NonceTooLow(bytes32 orderHash, uint256 nonce, uint256 least);
    error FeeTooHigh(bytes32 orderHash, uint256 feeRateBps, uint256 most);
    error Overfilled(bytes32 orderHash, uint256 size, uint256 most);
    error Overpaid(bytes32 orderHash, uint256 debit, uint256 most);
    error NothingToFill();
    error OrdersDoNotMeet(bytes32 resting, bytes32 incoming);
    error NotComplementary(uint256 tokenId, uint256 other);
    error SizeNotWhole(uint256 size, uint256 unit);
    error NotPayer(address wallet, address maker);
    error NotPayee(address maker, address wallet);
    error NotBinary(bytes32 conditionId);
    error NotWanted(address sender);

    uint8 private constant BUY = 0;
    uint8 private constant SELL = 1;
    uint256 private constant CENTS = 100;
    uint256 private constant REASON_BYTES = 256;
    /// @notice How many fills a call may have.
    uint256 public constant FILLS_MAX = 25;
    /// @notice How much gas a fill may take; its share is lost if somebody burns it.
    uint256 public constant FILL_GAS = 600_000;

    /// @notice What is paid with.
    IERC20 public immutable collateral;
    /// @notice What is traded.
    IConditionalTokens public immutable tokens;
    BitMaps.BitMap private _settled;
    /// @notice The other outcome of a token, where its condition was registered.
    mapping(uint256 tokenId => Outcome) public outcomes;

    constructor(
        string memory name,
        string memory version,
        IERC20 collateral_,
        IConditionalTokens tokens_,
        address owner_,
        address operator_
    ) EIP712(name, version) Operated(owner_, operator_) {
        collateral = collateral_;
        tokens = tokens_;
        collateral_.forceApprove(address(tokens_), type(uint256).max);
    }

    // ----- settling ------------------------------------------------------------------------------

    /// @notice Settles fills, each by itself: one that fails does not touch the others.
    function settle(Fill[] calldata fills) external whenNotPaused nonReentrant {
        if (msg.sender != operator) revert NotOperator(msg.sender);
        if (fills.length > FILLS_MAX) revert TooManyFills(fills.length, FILLS_MAX);
        for (uint256 place = 0; place < fills.length; ++place) {
            Fill calldata fill = fills[place];
            if (settled(fill.tradeId)) {
                emit SettledBefore(fill.tradeId);
                continue;
            }
            (bool done, bytes memory reason) = _attempt(abi.encodeCall(this.settleOne, (fill)));
            if (!done) emit SettleFailed(fill.tradeId, reason);
        }
    }

    /// @notice Settles a fill; only `settle` may call it.
    function settleOne(Fill calldata fill) external {
        if (msg.sender != address(this)) revert NotOperator(msg.sender);
        _settled.set(fill.tradeId);
        Order calldata first = fill.resting.order;
        Order calldata second = fill.incoming.order;
        bool isDirect = first.tokenId == second.tokenId;
        uint256 price = fill.price;
        if (price == 0 || price >= CENTS) revert PriceOutOfRange(price);
        uint256 other = isDirect ? price : CENTS - price;
        bytes32 resting = _use(fill.resting, price, fill.size);
        bytes32 incoming = _use(fill.incoming, other, fill.size);
        if (isDirect == (first.side == second.side)) revert OrdersDoNotMeet(resting, incoming);
        if (isDirect) _trade(fill);
        else if (first.side == BUY) _mint(fill);
        else _merge(fill);
        emit Settled(fill.tradeId, resting, incoming, price, fill.size);
    }

    /// @notice If a fill was settled, by the id of its trade.
    function settled(uint256 tradeId) public view returns (bool) {
        return _settled.get(tradeId);
    }

    /// @notice Learns both tokens of a condition, so that orders for them can meet. Anybody may.
    function registerCondition(bytes32 conditionId) external {
        if (tokens.getOutcomeSlotCount(conditionId) != 2) revert NotBinary(conditionId);
        uint256 yes = _position(conditionId, 1);
        uint256 no = _position(conditionId, 2);
        outcomes[yes] = Outcome(conditionId, no);
        outcomes[no] = Outcome(conditionId, yes);
        emit ConditionRegistered(conditionId, yes, no);
    }

    // ----- tokens that come in -------------------------------------------------------------------

    /// @notice Takes tokens only while it moves them itself.
    function onERC1155Received(address sender, address, uint256, uint256, bytes calldata)
        external
        view
        returns (bytes4)
    {
        if (sender != address(this)) revert NotWanted(sender);
        return this.onERC1155Received.selector;
    }

    /// @notice Takes tokens only while it makes them itself.
    function onERC1155BatchReceived(
        address sender,
        address,
        uint256[] calldata,
        uint256[] calldata,
        bytes calldata
    ) external view returns (bytes4) {
        if (sender != address(this)) revert NotWanted(sender);
        return this.onERC1155BatchReceived.selector;
    }

    /// @notice Says which interfaces there are.
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == type(IERC1155Receiver).interfaceId || id == type(IERC165).interfaceId;
    }

    // ----- an order ------------------------------------------------------------------------------

    // Checks that an order allows this, and takes it down.
    function _use(Party calldata party, uint256 price, uint256 size)
        private
        returns (bytes32 orderHash)
    {
        Order calldata order = party.order;
        orderHash = authorised(order, party.signature);
        if (order.side > SELL) revert WrongSide(order.side);
        if (order.taker != address(0) && order.taker != operator) {
            revert TakerNotSupported(order.taker);
        }
        // It may have traded in its last second, and come here later.
        if (order.expiration != 0 && block.timestamp > Math.saturatingAdd(order.expiration, DELAY)) {
            revert Expired(orderHash, order.expiration);
        }
        uint256 least = nonceOf(order.maker);
        if (order.nonce < least) revert NonceTooLow(orderHash, order.nonce, least);
        if (party.feeRateBps > order.feeRateBps) {
            revert FeeTooHigh(orderHash, party.feeRateBps, order.feeRateBps);
        }
        if (!_isPriceSigned(order, price)) revert WrongPrice(orderHash, price);
        _count(order, orderHash, price, size);
    }

    // The price, and not the rounded collateral, is what was signed.
    function _isPriceSigned(Order calldata order, uint256 price) private pure returns (bool) {
        if (order.side == BUY) {
            return price * order.takerAmount < CENTS * order.makerAmount + CENTS;
        }
        return price * order.makerAmount + CENTS > CENTS * order.takerAmount;
    }

    function _count(Order calldata order, bytes32 orderHash, uint256 price, uint256 size) private {
        if (size == 0) revert NothingToFill();
        Used memory present = used[orderHash];
        if (present.cancelled != 0 && block.timestamp >= present.cancelled) {
            revert Cancelled(orderHash);
        }
        bool buys = order.side == BUY;
        uint256 filled = present.size + size;
        uint256 most = buys ? order.takerAmount : order.makerAmount;
        if (filled > most) revert Overfilled(orderHash, filled, most);
        present.size = filled.toUint112();
        if (buys) {
            uint256 debit = present.debit + (size * price) / CENTS;
            if (debit > order.makerAmount) revert Overpaid(orderHash, debit, order.makerAmount);
            present.debit = debit.toUint112();
        }
        used[orderHash] = present;
    }

    // ----- what moves ----------------------------------------------------------------------------

    // Tokens for collateral.
    function _trade(Fill calldata fill) private {
        bool restingBuys = fill.resting.order.side == BUY;
        Party calldata buyer = restingBuys ? fill.resting : fill.incoming;
        Party calldata seller = restingBuys ? fill.incoming : fill.resting;
        _pay(_payer(buyer), seller, fill.price, fill.size, (fill.size * fill.price) / CENTS);
        _deliver(seller.order.maker, buyer, fill.price, fill.size);
    }

    // Both pay their part of the collateral, and each gets the token he buys.
    function _mint(Fill calldata fill) private {
        bytes32 conditionId = _condition(fill);
        uint256 part = (fill.size * fill.price) / CENTS;
        collateral.safeTransferFrom(_payer(fill.resting), address(this), part);
        collateral.safeTransferFrom(_payer(fill.incoming), address(this), fill.size - part);
        tokens.splitPosition(collateral, bytes32(0), conditionId, _both(), fill.size);
        _deliver(address(this), fill.resting, fill.price, fill.size);
        _deliver(address(this), fill.incoming, CENTS - fill.price, fill.size);
    }

    // Each gives the token he sells, and gets his part of the collateral.
    function _merge(Fill calldata fill) private {
        bytes32 conditionId = _condition(fill);
        _take(fill.resting.order, fill.size);
        _take(fill.incoming.order, fill.size);
        tokens.mergePositions(collateral, bytes32(0), conditionId, _both(), fill.size);
        uint256 part = (fill.size * fill.price) / CENTS;
        _pay(address(this), fill.resting, fill.price, fill.size, part);
        _pay(address(this), fill.incoming, CENTS - fill.price, fill.size, fill.size - part);
    }

    // Pays a seller, less the fee.
    function _pay(
        address payer,
        Party calldata seller,
        uint256 price,
        uint256 size,
        uint256 amount
    ) private {
        address maker = seller.order.maker;
        address payee = seller.wallet == address(0) ? maker : seller.wallet;
        if (!isPayee(maker, payee)) revert NotPayee(maker, payee);
        uint256 rate = seller.feeRateBps * Math.min(price, CENTS - price);
        uint256 fee = (rate * size) / 1_000_000;
        _move(payer, payee, amount - fee);
        if (fee != 0) _move(payer, feeWallet, fee);
    }

    function _move(address payer, address payee, uint256 amount) private {
        if (payer == address(this)) collateral.safeTransfer(payee, amount);
        else collateral.safeTransferFrom(payer, payee, amount);
    }

    // Gives a buyer his tokens, less the fee.
    function _deliver(address from, Party calldata buyer, uint256 price, uint256 size) private {
        uint256 rate = buyer.feeRateBps * Math.min(price, CENTS - price);
        uint256 fee = (rate * size) / (10_000 * price);
        uint256 tokenId = buyer.order.tokenId;
        tokens.safeTransferFrom(from, buyer.order.maker, tokenId, size - fee, "");
        if (fee != 0) tokens.safeTransferFrom(from, feeWallet, tokenId, fee, "");
    }

    function _take(Order calldata order, uint256 size) private {
        tokens.safeTransferFrom(order.maker, address(this), order.tokenId, size, "");
    }

    // ----- inside --------------------------------------------------------------------------------

    // Calls this contract, with no more gas than a fill may take, and no more of an answer than is
    // kept. With less gas than that, a fill would fail that need not.
    function _attempt(bytes memory data) private returns (bool done, bytes memory reason) {
        uint256 needed = (FILL_GAS * 64) / 63 + 10_000;
        if (gasleft() < needed) revert TooLittleGas(gasleft(), needed);
        uint256 gas_ = FILL_GAS;
        uint256 most = REASON_BYTES;
        assembly ("memory-safe") {
            done := call(gas_, address(), 0, add(data, 32), mload(data), 0, 0)
            let size := returndatasize()
            if gt(size, most) { size := most }
            reason := mload(0x40)
            mstore(reason, size)
            returndatacopy(add(reason, 32), 0, size)
            mstore(0x40, add(reason, and(add(size, 63), not(31))))
        }
    }

    function _payer(Party calldata buyer) private view returns (address) {
        address maker = buyer.order.maker;
        address payer = buyer.wallet == address(0) ? maker : buyer.wallet;
        if (!isPayer(payer, maker)) revert NotPayer(payer, maker);
        return payer;
    }

    // Two halves of a size add up to it only if it is whole in hundredths.
    function _condition(Fill calldata fill) private view returns (bytes32) {
        if (fill.size % CENTS != 0) revert SizeNotWhole(fill.size, CENTS);
        uint256 tokenId = fill.resting.order.tokenId;
        uint256 other = fill.incoming.order.tokenId;
        Outcome memory outcome = outcomes[tokenId];
        if (outcome.other != other) revert NotComplementary(tokenId, other);
        return outcome.conditionId;
    }

    function _both() private pure returns (uint256[] memory partition) {
        partition = new uint256[](2);
        partition[0] = 1;
        partition[1] = 2;
    }

    function _position(bytes32 conditionId, uint256 indexSet) private view returns (uint256) {
        bytes32 collection = tokens.getCollectionId(bytes32(0), conditionId, indexSet);
        return tokens.getPositionId(collateral, collection);
    }
}
