// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Escrow} from "./Escrow.sol";
import {IConditionalTokens} from "./IConditionalTokens.sol";
import {Operated} from "./Operated.sol";

/// @title Settles trades that the operator matched, as far as both makers signed for them.
/// @notice A fill moves what it says from one maker to the other, or nothing: between their wallets
/// (`settle`) or between their escrows (`settleEscrow`). The operator chooses which orders meet,
/// when, and at which price within what both signed; nothing else.
/// @dev Not upgradeable: another exchange is another contract at another address.
contract Exchange is Escrow {
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

    /// @dev An order in a fill, with the collateral that it moves and its fee, in collateral for a
    /// sale and in tokens for a buy.
    struct Leg {
        bytes32 orderHash;
        address wallet;
        uint256 amount;
        uint256 fee;
    }

    /// @notice A fill was settled.
    event Settled(
        uint256 indexed tradeId,
        bytes32 restingHash,
        bytes32 incomingHash,
        uint256 price,
        uint256 size
    );
    /// @notice An order of a fill that was settled; the resting one comes first, `Settled` last.
    /// @param wallet who paid the collateral of a buy, or got that of a sale.
    /// @param inEscrow if it moved balances in escrow; otherwise assets of the wallets.
    /// @param paid collateral of a buy, tokens of a sale.
    /// @param received tokens of a buy, collateral of a sale, without the fee.
    /// @param fee what the fee wallet got, of the asset that was received.
    event OrderFilled(
        bytes32 indexed orderHash,
        address indexed maker,
        address wallet,
        uint256 tokenId,
        uint8 side,
        bool inEscrow,
        uint256 paid,
        uint256 received,
        uint256 fee
    );
    /// @notice A fill moved nothing, and never will; the reason is what it reverted with, its first
    /// 256 bytes.
    event SettleFailed(uint256 indexed tradeId, bytes reason);
    /// @notice A fill had been settled before, and moved nothing.
    event SettledBefore(uint256 indexed tradeId);
    /// @notice A fill had failed before, and moved nothing.
    event FailedBefore(uint256 indexed tradeId);
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
    error NotToken(uint256 tokenId);
    error NotComplementary(uint256 tokenId, uint256 other);
    error SizeNotWhole(uint256 size, uint256 unit);
    error NotPayer(address wallet, address maker);
    error NotPayee(address maker, address wallet);
    error NotBinary(bytes32 conditionId);

    uint8 private constant BUY = 0;
    uint8 private constant SELL = 1;
    uint256 private constant CENTS = 100;
    uint256 private constant REASON_BYTES = 256;
    uint256 private constant SETTLED = 1;
    uint256 private constant FAILED = 2;
    /// @notice How many fills a call may have.
    uint256 public constant FILLS_MAX = 25;
    /// @notice How much gas a fill may take; its share is lost if somebody burns it.
    uint256 public constant FILL_GAS = 600_000;
    /// @notice The highest fee rate that is charged, whatever an order allows.
    uint256 public constant MAX_FEE_BPS = 1_000;

    // Two bits for each trade id: SETTLED, FAILED or neither.
    mapping(uint256 group => uint256) private _states;
    /// @notice The other outcome of a token, where its condition was registered.
    mapping(uint256 tokenId => Outcome) public outcomes;

    constructor(
        string memory name,
        string memory version,
        IERC20 collateral_,
        IConditionalTokens tokens_,
        address owner_,
        address operator_,
        address feeWallet_,
        address pauser_
    )
        EIP712(name, version)
        Operated(owner_, operator_, feeWallet_, pauser_)
        Escrow(collateral_, tokens_)
    {}

    // ----- settling ------------------------------------------------------------------------------

    /// @notice Settles fills between wallets, each by itself: one that fails does not touch the
    /// others. An id that settled or failed is spent; a transaction that reverts spends none.
    function settle(Fill[] calldata fills) external whenNotPaused nonReentrant {
        _settleAll(fills, false);
    }

    /// @notice The same between escrows. Amounts that are requested for withdrawal still settle.
    function settleEscrow(Fill[] calldata fills) external whenNotPaused nonReentrant {
        _settleAll(fills, true);
    }

    /// @notice Settles a fill; only this contract may call it.
    function settleOne(bool inEscrow, Fill calldata fill) external {
        if (msg.sender != address(this)) revert NotOperator(msg.sender);
        Order calldata first = fill.resting.order;
        Order calldata second = fill.incoming.order;
        bool isDirect = first.tokenId == second.tokenId;
        uint256 price = fill.price;
        uint256 size = fill.size;
        if (price == 0 || price >= CENTS) revert PriceOutOfRange(price);
        if (first.tokenId == COLLATERAL) revert NotToken(first.tokenId);
        uint256 part = (size * price) / CENTS;
        Leg memory resting = _use(fill.resting, price, size, part);
        Leg memory incoming = isDirect
            ? _use(fill.incoming, price, size, part)
            : _use(fill.incoming, CENTS - price, size, size - part);
        if (isDirect == (first.side == second.side)) {
            revert OrdersDoNotMeet(resting.orderHash, incoming.orderHash);
        }
        bytes32 conditionId = isDirect ? bytes32(0) : _condition(fill);
        if (inEscrow) _moveInEscrow(fill, resting, incoming, conditionId);
        else _moveInWallets(fill, resting, incoming, conditionId);
        _report(first, resting, size, inEscrow);
        _report(second, incoming, size, inEscrow);
        emit Settled(fill.tradeId, resting.orderHash, incoming.orderHash, price, size);
    }

    /// @notice If a fill was settled, by the id of its trade.
    function settled(uint256 tradeId) public view returns (bool) {
        return _state(tradeId) == SETTLED;
    }

    /// @notice If a fill failed, by the id of its trade.
    function failed(uint256 tradeId) public view returns (bool) {
        return _state(tradeId) == FAILED;
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

    function _settleAll(Fill[] calldata fills, bool inEscrow) private {
        if (msg.sender != operator()) revert NotOperator(msg.sender);
        if (fills.length > FILLS_MAX) revert TooManyFills(fills.length, FILLS_MAX);
        for (uint256 place = 0; place < fills.length; ++place) {
            uint256 tradeId = fills[place].tradeId;
            uint256 state = _state(tradeId);
            if (state == SETTLED) {
                emit SettledBefore(tradeId);
            } else if (state == FAILED) {
                emit FailedBefore(tradeId);
            } else {
                (bool done, bytes memory reason) = _attempt(fills, place, inEscrow);
                _states[tradeId >> 7] |= (done ? SETTLED : FAILED) << ((tradeId & 127) << 1);
                if (!done) emit SettleFailed(tradeId, reason);
            }
        }
    }

    // ----- an order ------------------------------------------------------------------------------

    // Checks that an order allows this, and takes it down.
    function _use(Party calldata party, uint256 price, uint256 size, uint256 amount)
        private
        returns (Leg memory leg)
    {
        Order calldata order = party.order;
        bytes32 orderHash = authorised(order, party.signature);
        if (order.side > SELL) revert WrongSide(order.side);
        if (order.taker != address(0) && order.taker != operator()) {
            revert TakerNotSupported(order.taker);
        }
        // It may have traded in its last second, and come here later.
        uint256 last = Math.saturatingAdd(order.expiration, DELAY);
        if (order.expiration != 0 && block.timestamp > last) {
            revert Expired(orderHash, order.expiration);
        }
        uint256 least = nonceOf(order.maker);
        if (order.nonce < least) revert NonceTooLow(orderHash, order.nonce, least);
        uint256 mostBps = Math.min(order.feeRateBps, MAX_FEE_BPS);
        if (party.feeRateBps > mostBps) revert FeeTooHigh(orderHash, party.feeRateBps, mostBps);
        if (!_isPriceSigned(order, price)) revert WrongPrice(orderHash, price);
        _count(order, orderHash, price, size);
        address wallet = party.wallet == address(0) ? order.maker : party.wallet;
        leg = Leg(orderHash, wallet, amount, _fee(order.side, party.feeRateBps, price, size));
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

    // The fee of a sale is of the collateral, that of a buy of the tokens.
    function _fee(uint8 side, uint256 rateBps, uint256 price, uint256 size)
        private
        pure
        returns (uint256)
    {
        uint256 rate = rateBps * Math.min(price, CENTS - price);
        return (rate * size) / (side == SELL ? 1_000_000 : 10_000 * price);
    }

    function _report(Order calldata order, Leg memory leg, uint256 size, bool inEscrow) private {
        bool buys = order.side == BUY;
        emit OrderFilled(
            leg.orderHash,
            order.maker,
            leg.wallet,
            order.tokenId,
            order.side,
            inEscrow,
            buys ? leg.amount : size,
            (buys ? size : leg.amount) - leg.fee,
            leg.fee
        );
    }

    // ----- between escrows -----------------------------------------------------------------------

    function _moveInEscrow(
        Fill calldata fill,
        Leg memory resting,
        Leg memory incoming,
        bytes32 conditionId
    ) private {
        uint256 size = fill.size;
        _exchangeInEscrow(fill.resting.order, resting, size);
        _exchangeInEscrow(fill.incoming.order, incoming, size);
        if (conditionId == 0) return;
        uint256 one = fill.resting.order.tokenId;
        uint256 other = fill.incoming.order.tokenId;
        if (fill.resting.order.side == BUY) {
            escrowed[COLLATERAL] -= size;
            escrowed[one] += size;
            escrowed[other] += size;
            tokens.splitPosition(collateral, bytes32(0), conditionId, _both(), size);
        } else {
            escrowed[COLLATERAL] += size;
            escrowed[one] -= size;
            escrowed[other] -= size;
            tokens.mergePositions(collateral, bytes32(0), conditionId, _both(), size);
        }
    }

    // Takes what a maker pays, and credits what it receives and the fee.
    function _exchangeInEscrow(Order calldata order, Leg memory leg, uint256 size) private {
        address maker = order.maker;
        uint256 token = order.tokenId;
        uint256 fee = leg.fee;
        if (order.side == BUY) {
            _checkPayer(leg.wallet, maker);
            _debit(leg.wallet, COLLATERAL, leg.amount);
            _credit(maker, token, size - fee);
            if (fee != 0) _credit(feeWallet(), token, fee);
        } else {
            _checkPayee(maker, leg.wallet);
            _debit(maker, token, size);
            _credit(leg.wallet, COLLATERAL, leg.amount - fee);
            if (fee != 0) _credit(feeWallet(), COLLATERAL, fee);
        }
    }

    // ----- between wallets -----------------------------------------------------------------------

    function _moveInWallets(
        Fill calldata fill,
        Leg memory resting,
        Leg memory incoming,
        bytes32 conditionId
    ) private {
        Order calldata first = fill.resting.order;
        Order calldata second = fill.incoming.order;
        uint256 size = fill.size;
        bool buys = first.side == BUY;
        if (conditionId == 0) {
            if (buys) _trade(first, resting, second, incoming, size);
            else _trade(second, incoming, first, resting, size);
        } else if (buys) {
            _collect(first.maker, resting);
            _collect(second.maker, incoming);
            tokens.splitPosition(collateral, bytes32(0), conditionId, _both(), size);
            _deliver(address(this), first, resting, size);
            _deliver(address(this), second, incoming, size);
        } else {
            tokens.safeTransferFrom(first.maker, address(this), first.tokenId, size, "");
            tokens.safeTransferFrom(second.maker, address(this), second.tokenId, size, "");
            tokens.mergePositions(collateral, bytes32(0), conditionId, _both(), size);
            _pay(address(this), first.maker, resting);
            _pay(address(this), second.maker, incoming);
        }
    }

    // Tokens for collateral.
    function _trade(
        Order calldata buy,
        Leg memory buyer,
        Order calldata sell,
        Leg memory seller,
        uint256 size
    ) private {
        _checkPayer(buyer.wallet, buy.maker);
        _pay(buyer.wallet, sell.maker, seller);
        _deliver(sell.maker, buy, buyer, size);
    }

    // Takes the part of the collateral that a buyer pays.
    function _collect(address maker, Leg memory buyer) private {
        _checkPayer(buyer.wallet, maker);
        collateral.safeTransferFrom(buyer.wallet, address(this), buyer.amount);
    }

    // Pays a seller, less the fee.
    function _pay(address payer, address maker, Leg memory seller) private {
        _checkPayee(maker, seller.wallet);
        _move(payer, seller.wallet, seller.amount - seller.fee);
        if (seller.fee != 0) _move(payer, feeWallet(), seller.fee);
    }

    function _move(address payer, address payee, uint256 amount) private {
        if (payer == address(this)) collateral.safeTransfer(payee, amount);
        else collateral.safeTransferFrom(payer, payee, amount);
    }

    // Gives a buyer the tokens, less the fee.
    function _deliver(address from, Order calldata buy, Leg memory buyer, uint256 size) private {
        uint256 fee = buyer.fee;
        tokens.safeTransferFrom(from, buy.maker, buy.tokenId, size - fee, "");
        if (fee != 0) tokens.safeTransferFrom(from, feeWallet(), buy.tokenId, fee, "");
    }

    // ----- inside --------------------------------------------------------------------------------

    // Calls `settleOne` with no more gas than a fill may take, and keeps no more of an answer than
    // REASON_BYTES. With less gas than that, a fill would fail that need not.
    function _attempt(Fill[] calldata fills, uint256 place, bool inEscrow)
        private
        returns (bool done, bytes memory reason)
    {
        uint256 needed = (FILL_GAS * 64) / 63 + 10_000;
        if (gasleft() < needed) revert TooLittleGas(gasleft(), needed);
        Fill calldata fill = fills[place];
        uint256 end = msg.data.length;
        if (place + 1 < fills.length) {
            Fill calldata next = fills[place + 1];
            assembly {
                end := next
            }
        }
        bytes4 selector = this.settleOne.selector;
        uint256 gas_ = FILL_GAS;
        uint256 most = REASON_BYTES;
        // A fill is passed on as it is in calldata, where all its places are relative to its own.
        // One that the operator encoded otherwise fails, or reads bytes that no maker signed.
        assembly ("memory-safe") {
            let data := mload(0x40)
            let length := mul(gt(end, fill), sub(end, fill))
            mstore(data, selector)
            mstore(add(data, 4), inEscrow)
            mstore(add(data, 36), 64)
            calldatacopy(add(data, 68), fill, length)
            done := call(gas_, address(), 0, data, add(68, length), 0, 0)
            if iszero(done) {
                let size := returndatasize()
                if gt(size, most) { size := most }
                reason := mload(0x40)
                mstore(reason, size)
                returndatacopy(add(reason, 32), 0, size)
                mstore(0x40, add(reason, and(add(size, 63), not(31))))
            }
        }
    }

    function _state(uint256 tradeId) private view returns (uint256) {
        return (_states[tradeId >> 7] >> ((tradeId & 127) << 1)) & 3;
    }

    function _checkPayer(address wallet, address maker) private view {
        if (!isPayer(wallet, maker)) revert NotPayer(wallet, maker);
    }

    function _checkPayee(address maker, address wallet) private view {
        if (!isPayee(maker, wallet)) revert NotPayee(maker, wallet);
    }

    // The condition of two complementary tokens, never 0. Two halves of a size add up to it only if
    // it is whole in hundredths.
    function _condition(Fill calldata fill) private view returns (bytes32) {
        if (fill.size % CENTS != 0) revert SizeNotWhole(fill.size, CENTS);
        uint256 tokenId = fill.resting.order.tokenId;
        uint256 other = fill.incoming.order.tokenId;
        Outcome memory outcome = outcomes[tokenId];
        if (outcome.conditionId == 0 || outcome.other != other) {
            revert NotComplementary(tokenId, other);
        }
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
