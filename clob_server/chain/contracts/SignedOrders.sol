// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title What makers sign and allow, and how much of it was used.
/// @notice Whatever a maker takes back, an order, a nonce or a permission, counts only after DELAY:
/// it stops what would come, and not trades that were made before it.
abstract contract SignedOrders is EIP712 {
    using SafeCast for uint256;

    /// @notice What is signed: the order of the CTF exchange.
    struct Order {
        uint256 salt;
        address maker;
        address signer;
        address taker;
        uint256 tokenId;
        uint256 makerAmount;
        uint256 takerAmount;
        uint256 expiration;
        uint256 nonce;
        uint256 feeRateBps;
        uint8 side;
        uint8 signatureType;
    }

    /// @notice What was used of an order, and from when on it is cancelled, in seconds; 0 is never.
    struct Used {
        uint112 size;
        uint112 debit;
        uint32 cancelled;
    }

    /// @notice The nonces of a maker: one that counts before a time, in seconds, and one from then.
    struct Nonces {
        uint96 before;
        uint96 raised;
        uint64 from;
    }

    /// @notice Who has allowed whom, and who has taken it back.
    event DelegateSet(address indexed maker, address indexed delegate, bool allowed);
    event GaslessSet(address indexed maker, bool allowed);
    event PayerSet(address indexed wallet, address indexed maker, bool allowed);
    event PayeeSet(address indexed maker, address indexed wallet, bool allowed);
    /// @notice From a time on, in seconds, orders of a lower nonce do not settle.
    event NonceRaised(address indexed maker, uint256 nonce, uint256 from);
    /// @notice From a time on, in seconds, an order does not settle.
    event OrderCancelled(bytes32 indexed orderHash, address indexed maker, uint256 from);

    error UnknownSignatureType(uint8 signatureType);
    error UnusableSignature(bytes signature);
    error WrongSigner(address found, address named);
    error NotDelegate(address maker, address signer);
    error NotGasless(address maker);
    error NotMaker(address sender, address maker);
    error NonceNotRaised(uint256 nonce, uint256 present);

    bytes32 private constant ORDER_TYPE = keccak256(
        "Order(uint256 salt,address maker,address signer,address taker,uint256 tokenId,"
        "uint256 makerAmount,uint256 takerAmount,uint256 expiration,uint256 nonce,"
        "uint256 feeRateBps,uint8 side,uint8 signatureType)"
    );
    uint256 private constant FOR_EVER = type(uint256).max;

    /// @notice After how many seconds it counts that something was taken back.
    uint256 public constant DELAY = 300;

    /// @notice What was used of an order, by its hash.
    mapping(bytes32 orderHash => Used) public used;
    mapping(address maker => Nonces) private _nonces;
    mapping(address maker => mapping(address delegate => uint256 until)) private _delegates;
    mapping(address maker => mapping(address wallet => uint256 until)) private _payees;
    mapping(address wallet => mapping(address maker => uint256 until)) private _payers;
    mapping(address maker => uint256 until) private _gasless;

    // ----- what makers say -----------------------------------------------------------------------

    /// @notice Lets somebody sign orders for the sender, or does so no longer.
    function setDelegate(address delegate, bool allowed) external {
        _delegates[msg.sender][delegate] = _until(_delegates[msg.sender][delegate], allowed);
        emit DelegateSet(msg.sender, delegate, allowed);
    }

    /// @notice Lets the operator settle orders of the sender that nobody signed, or does so no
    /// longer. Who allows it trusts the operator with everything approved to this contract.
    function setGasless(bool allowed) external {
        _gasless[msg.sender] = _until(_gasless[msg.sender], allowed);
        emit GaslessSet(msg.sender, allowed);
    }

    /// @notice Lets what a maker buys be paid by the sender, or does so no longer.
    function setPayer(address maker, bool allowed) external {
        _payers[msg.sender][maker] = _until(_payers[msg.sender][maker], allowed);
        emit PayerSet(msg.sender, maker, allowed);
    }

    /// @notice Lets a wallet be paid what the sender sells, or does so no longer.
    function setPayee(address wallet, bool allowed) external {
        _payees[msg.sender][wallet] = _until(_payees[msg.sender][wallet], allowed);
        emit PayeeSet(msg.sender, wallet, allowed);
    }

    /// @notice Raises the sender's nonce by one; all orders below it are cancelled after DELAY.
    function incrementNonce() external {
        _raise(uint256(_nonces[msg.sender].raised) + 1);
    }

    /// @notice Raises the sender's nonce; all orders below it are cancelled after DELAY.
    /// @dev One that was raised before and does not count yet counts with this one.
    function raiseNonce(uint256 nonce) external {
        _raise(nonce);
    }

    /// @notice Cancels an order of the sender, after DELAY.
    function cancel(Order calldata order) external {
        if (order.maker != msg.sender) revert NotMaker(msg.sender, order.maker);
        bytes32 orderHash = hashOrder(order);
        if (used[orderHash].cancelled == 0) {
            used[orderHash].cancelled = (block.timestamp + DELAY).toUint32();
        }
        emit OrderCancelled(orderHash, msg.sender, used[orderHash].cancelled);
    }

    // ----- what others ask -----------------------------------------------------------------------

    /// @notice The hash that is signed and that names an order.
    function hashOrder(Order calldata order) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(ORDER_TYPE, order)));
    }

    /// @notice The hash of an order, if whoever signed it may; it reverts if not.
    /// @param signature 65 bytes r, s, v; none for an order of a maker who is gasless.
    function authorised(Order calldata order, bytes calldata signature)
        public
        view
        returns (bytes32 orderHash)
    {
        orderHash = hashOrder(order);
        if (signature.length == 0) {
            if (!isGasless(order.maker)) revert NotGasless(order.maker);
            return orderHash;
        }
        if (order.signatureType > 1) revert UnknownSignatureType(order.signatureType);
        address found = _recover(orderHash, signature);
        if (found != order.signer && order.signatureType == 0) {
            found = _recover(MessageHashUtils.toEthSignedMessageHash(orderHash), signature);
        }
        if (found != order.signer) revert WrongSigner(found, order.signer);
        if (order.signer != order.maker && !isDelegate(order.maker, order.signer)) {
            revert NotDelegate(order.maker, order.signer);
        }
    }

    /// @notice If somebody may sign for a maker.
    function isDelegate(address maker, address signer) public view returns (bool) {
        return block.timestamp < _delegates[maker][signer];
    }

    /// @notice If orders of a maker settle that nobody signed.
    function isGasless(address maker) public view returns (bool) {
        return block.timestamp < _gasless[maker];
    }

    /// @notice If a wallet pays for what a maker buys.
    function isPayer(address wallet, address maker) public view returns (bool) {
        return wallet == maker || block.timestamp < _payers[wallet][maker];
    }

    /// @notice If a wallet may be paid what a maker sells.
    function isPayee(address maker, address wallet) public view returns (bool) {
        return wallet == maker || block.timestamp < _payees[maker][wallet];
    }

    /// @notice The nonce below which orders of a maker do not settle at present.
    function nonceOf(address maker) public view returns (uint256) {
        Nonces memory nonces = _nonces[maker];
        return block.timestamp < nonces.from ? nonces.before : nonces.raised;
    }

    // ----- inside --------------------------------------------------------------------------------

    function _raise(uint256 nonce) private {
        uint256 present = _nonces[msg.sender].raised;
        if (nonce <= present) revert NonceNotRaised(nonce, present);
        uint256 from = block.timestamp + DELAY;
        _nonces[msg.sender] =
            Nonces(nonceOf(msg.sender).toUint96(), nonce.toUint96(), from.toUint64());
        emit NonceRaised(msg.sender, nonce, from);
    }

    // What was never allowed must not be allowed for a while by taking it back.
    function _until(uint256 present, bool allowed) private view returns (uint256) {
        if (allowed) return FOR_EVER;
        return present == FOR_EVER ? block.timestamp + DELAY : present;
    }

    // What is accepted is what clob.signing accepts: v of 0, 1, 27 or 28, and a low s.
    function _recover(bytes32 digest, bytes calldata signature) private pure returns (address) {
        if (signature.length != 65) revert UnusableSignature(signature);
        uint8 v = uint8(signature[64]);
        if (v < 2) v += 27;
        bytes32 r = bytes32(signature[:32]);
        bytes32 s = bytes32(signature[32:64]);
        (address found, ECDSA.RecoverError problem,) = ECDSA.tryRecover(digest, v, r, s);
        if (problem != ECDSA.RecoverError.NoError) revert UnusableSignature(signature);
        return found;
    }
}
