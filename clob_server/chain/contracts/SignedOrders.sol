// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
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

    /// @notice What most fills read of a wallet: its collateral in escrow, and when its last raised
    /// nonce takes effect, as a number of steps.
    struct Account {
        uint192 collateral;
        uint64 lastRaise;
    }

    /// @notice A raised nonce, and the time of the one before it, as a number of steps.
    struct Raise {
        uint256 nonce;
        uint256 previous;
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

    /// @notice Gas that a wallet with code may use to check a signature.
    uint256 public constant SIGNATURE_GAS = 150_000;
    /// @notice Raised nonces take effect at multiples of as many seconds, so that few are pending
    /// at a time.
    uint256 public constant NONCE_STEP = 60;

    /// @notice What was used of an order, by its hash.
    mapping(bytes32 orderHash => Used) public used;
    mapping(address wallet => Account) internal _accounts;
    mapping(address maker => mapping(uint256 step => Raise)) private _raises;
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

    /// @notice Raises the sender's nonce by one; all orders below it are cancelled after DELAY and
    /// at most NONCE_STEP.
    function incrementNonce() external {
        _raise(_raised(msg.sender) + 1);
    }

    /// @notice Raises the sender's nonce; all orders below it are cancelled after DELAY and at most
    /// NONCE_STEP. Another raise does not postpone an earlier one.
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
        bytes32 orderType = ORDER_TYPE;
        bytes32 structHash;
        // The twelve words of an order are in calldata as EIP-712 encodes them.
        assembly ("memory-safe") {
            let place := mload(0x40)
            mstore(place, orderType)
            calldatacopy(add(place, 32), order, 384)
            structHash := keccak256(place, 416)
        }
        return _hashTypedDataV4(structHash);
    }

    /// @notice The hash of an order, if its signer may sign it; it reverts otherwise.
    /// @param signature 65 bytes r, s, v, or anything that a signer with code accepts (EIP-1271);
    /// empty for an order of a maker who is gasless.
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
        _checkSignature(order.signer, orderHash, signature, order.signatureType == 0);
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
        uint256 step = _accounts[maker].lastRaise;
        uint256 present = block.timestamp / NONCE_STEP;
        while (step > present) step = _raises[maker][step].previous;
        return step == 0 ? 0 : _raises[maker][step].nonce;
    }

    // ----- inside --------------------------------------------------------------------------------

    function _raise(uint256 nonce) private {
        uint256 present = _raised(msg.sender);
        if (nonce <= present) revert NonceNotRaised(nonce, present);
        uint256 step = Math.ceilDiv(block.timestamp + DELAY, NONCE_STEP);
        uint256 last = _accounts[msg.sender].lastRaise;
        Raise storage raise = _raises[msg.sender][step];
        raise.nonce = nonce;
        if (last != step) {
            raise.previous = last;
            _accounts[msg.sender].lastRaise = step.toUint64();
        }
        emit NonceRaised(msg.sender, nonce, step * NONCE_STEP);
    }

    function _raised(address maker) private view returns (uint256) {
        return _raises[maker][_accounts[maker].lastRaise].nonce;
    }

    // What was never allowed must not be allowed for a while by taking it back.
    function _until(uint256 present, bool allowed) private view returns (uint256) {
        if (allowed) return FOR_EVER;
        return present == FOR_EVER ? block.timestamp + DELAY : present;
    }

    // Reverts unless a signer signed a hash, or its personal_sign form if that is allowed.
    function _checkSignature(
        address signer,
        bytes32 digest,
        bytes calldata signature,
        bool isPersonal
    ) internal view {
        address found = _recover(digest, signature);
        if (found != signer && found != address(0) && isPersonal) {
            found = _recover(MessageHashUtils.toEthSignedMessageHash(digest), signature);
        }
        if (found == signer && found != address(0)) return;
        if (signer.code.length != 0 && _isAccepted(signer, digest, signature)) return;
        if (found == address(0)) revert UnusableSignature(signature);
        revert WrongSigner(found, signer);
    }

    // Accepts what clob.signing accepts: v of 0, 1, 27 or 28, and a low s; zero for anything else.
    function _recover(bytes32 digest, bytes calldata signature) private pure returns (address) {
        if (signature.length != 65) return address(0);
        uint8 v = uint8(signature[64]);
        if (v < 2) v += 27;
        bytes32 r = bytes32(signature[:32]);
        bytes32 s = bytes32(signature[32:64]);
        (address found, ECDSA.RecoverError problem,) = ECDSA.tryRecover(digest, v, r, s);
        return problem == ECDSA.RecoverError.NoError ? found : address(0);
    }

    // Asks a signer with code (EIP-1271). It cannot change anything, use more gas than its share,
    // or return more than is read.
    function _isAccepted(address signer, bytes32 digest, bytes calldata signature)
        private
        view
        returns (bool accepted)
    {
        bytes memory data = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        bytes32 expected = IERC1271.isValidSignature.selector;
        uint256 gas_ = SIGNATURE_GAS;
        assembly ("memory-safe") {
            mstore(0, 0)
            accepted := staticcall(gas_, signer, add(data, 32), mload(data), 0, 32)
            accepted := and(accepted, gt(returndatasize(), 31))
            accepted := and(accepted, eq(mload(0), expected))
        }
    }
}
