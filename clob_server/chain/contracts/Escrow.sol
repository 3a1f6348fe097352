// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IConditionalTokens} from "./IConditionalTokens.sol";
import {Operated} from "./Operated.sol";
import {SignedOrders} from "./SignedOrders.sol";

/// @title Collateral and outcome tokens that wallets have deposited.
/// @notice A deposit leaves only by a trade within what its maker signed, or by a withdrawal to its
/// own wallet, which is possible after DELAY whatever owner and operator do.
/// @dev An asset is 0 for the collateral, else the id of an outcome token.
abstract contract Escrow is SignedOrders, Operated, ReentrancyGuardTransient, IERC1155Receiver {
    using BitMaps for BitMaps.BitMap;
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice An amount that a wallet withdraws, at the earliest at a time in seconds; 0 is none.
    struct Request {
        uint192 amount;
        uint64 from;
    }

    event Deposited(address indexed wallet, uint256 indexed asset, uint256 amount, address from);
    /// @notice An amount may be withdrawn from a time on, in seconds. The last such event counts;
    /// an amount of 0 withdraws the request.
    event WithdrawalRequested(
        address indexed wallet, uint256 indexed asset, uint256 amount, uint256 from
    );
    event Withdrawn(address indexed wallet, uint256 indexed asset, uint256 amount);
    event Rescued(address indexed token, uint256 id, address indexed to, uint256 amount);

    error InsufficientEscrow(address wallet, uint256 asset, uint256 balance, uint256 needed);
    error NothingToMove();
    error WrongAmount(uint256 received, uint256 expected);
    error NotRequested(address wallet, uint256 asset);
    error NotDue(uint256 from);
    error SignatureExpired(uint256 deadline);
    error NonceUsed(address wallet, uint256 nonce);
    error NotStray(uint256 amount, uint256 most);
    error NotWanted(address sender);

    /// @dev The asset of the collateral.
    uint256 internal constant COLLATERAL = 0;
    bytes32 private constant WITHDRAWAL_TYPE = keccak256(
        "Withdrawal(address wallet,uint256 asset,uint256 amount,uint256 nonce,uint256 deadline)"
    );

    /// @notice What is paid with.
    IERC20 public immutable collateral;
    /// @notice What is traded.
    IConditionalTokens public immutable tokens;
    // Balances of outcome tokens; those of collateral are in `_accounts`.
    mapping(address wallet => mapping(uint256 tokenId => uint256)) private _tokens;
    mapping(address wallet => mapping(uint256 asset => Request)) private _requests;
    mapping(address wallet => BitMaps.BitMap) private _nonces;
    /// @notice The sum of all balances of an asset.
    mapping(uint256 asset => uint256) public escrowed;

    constructor(IERC20 collateral_, IConditionalTokens tokens_) {
        collateral = collateral_;
        tokens = tokens_;
        collateral_.forceApprove(address(tokens_), type(uint256).max);
    }

    // ----- deposits ------------------------------------------------------------------------------

    /// @notice Moves an asset of the sender, which has approved it, into the escrow of a wallet.
    function deposit(address wallet, uint256 asset, uint256 amount) external nonReentrant {
        if (amount == 0) revert NothingToMove();
        if (wallet == address(0)) revert ZeroAddress();
        _credit(wallet, asset, amount);
        escrowed[asset] += amount;
        emit Deposited(wallet, asset, amount, msg.sender);
        if (asset != COLLATERAL) {
            tokens.safeTransferFrom(msg.sender, address(this), asset, amount, "");
            return;
        }
        uint256 before = collateral.balanceOf(address(this));
        collateral.safeTransferFrom(msg.sender, address(this), amount);
        // A token that keeps a fee would leave balances without backing.
        uint256 received = collateral.balanceOf(address(this)) - before;
        if (received != amount) revert WrongAmount(received, amount);
    }

    // ----- withdrawals ---------------------------------------------------------------------------

    /// @notice Requests that an amount be withdrawn after DELAY. It replaces an earlier request,
    /// and the delay starts again; 0 withdraws the request.
    /// @dev Until the withdrawal, the amount still settles trades: those made before the request.
    function requestWithdrawal(uint256 asset, uint256 amount) external {
        _request(msg.sender, asset, amount);
    }

    /// @notice The same, for a wallet that signed it.
    /// @param nonce a number that the wallet uses once; numbers have no order.
    /// @param deadline the last second in which it counts.
    function requestWithdrawalFor(
        address wallet,
        uint256 asset,
        uint256 amount,
        uint256 nonce,
        uint256 deadline,
        bytes calldata signature
    ) external {
        if (block.timestamp > deadline) revert SignatureExpired(deadline);
        if (_nonces[wallet].get(nonce)) revert NonceUsed(wallet, nonce);
        _nonces[wallet].set(nonce);
        bytes32 structHash =
            keccak256(abi.encode(WITHDRAWAL_TYPE, wallet, asset, amount, nonce, deadline));
        _checkSignature(wallet, _hashTypedDataV4(structHash), signature, false);
        _request(wallet, asset, amount);
    }

    /// @notice Pays a requested amount, or what is left of it, to its wallet. Any account may send
    /// it.
    function withdraw(address wallet, uint256 asset) external nonReentrant {
        Request memory request = _requests[wallet][asset];
        if (request.amount == 0) revert NotRequested(wallet, asset);
        if (block.timestamp < request.from) revert NotDue(request.from);
        uint256 amount = Math.min(request.amount, _balance(wallet, asset));
        delete _requests[wallet][asset];
        _debit(wallet, asset, amount);
        escrowed[asset] -= amount;
        emit Withdrawn(wallet, asset, amount);
        if (amount == 0) return;
        if (asset == COLLATERAL) collateral.safeTransfer(wallet, amount);
        else tokens.safeTransferFrom(address(this), wallet, asset, amount, "");
    }

    // ----- views ---------------------------------------------------------------------------------

    /// @notice The balance of a wallet in escrow, what it has requested of it, and from when on, in
    /// seconds, that may be withdrawn.
    function escrowOf(address wallet, uint256 asset)
        external
        view
        returns (uint256 balance, uint256 requested, uint256 from)
    {
        Request memory request = _requests[wallet][asset];
        return (_balance(wallet, asset), request.amount, request.from);
    }

    /// @notice The balance and the requested amount of each pair of a wallet and an asset.
    function escrowOfBatch(address[] calldata wallets, uint256[] calldata assets)
        external
        view
        returns (uint256[2][] memory amounts)
    {
        amounts = new uint256[2][](wallets.length);
        for (uint256 place = 0; place < wallets.length; ++place) {
            address wallet = wallets[place];
            uint256 asset = assets[place];
            amounts[place] = [_balance(wallet, asset), _requests[wallet][asset].amount];
        }
    }

    // ----- stray tokens --------------------------------------------------------------------------

    /// @notice Sends ERC-20 tokens that arrived without a deposit.
    function rescue(IERC20 token, address to, uint256 amount) external onlyOwner nonReentrant {
        uint256 kept = address(token) == address(collateral) ? escrowed[COLLATERAL] : 0;
        _checkStray(amount, token.balanceOf(address(this)), kept);
        emit Rescued(address(token), 0, to, amount);
        token.safeTransfer(to, amount);
    }

    /// @notice Sends ERC-1155 tokens that arrived without a deposit.
    function rescueTokens(IERC1155 token, uint256 id, address to, uint256 amount)
        external
        onlyOwner
        nonReentrant
    {
        uint256 kept = address(token) == address(tokens) ? escrowed[id] : 0;
        _checkStray(amount, token.balanceOf(address(this), id), kept);
        emit Rescued(address(token), id, to, amount);
        token.safeTransferFrom(address(this), to, id, amount, "");
    }

    // ----- tokens that come in -------------------------------------------------------------------

    /// @notice Takes outcome tokens only while it moves them itself.
    function onERC1155Received(address sender, address, uint256, uint256, bytes calldata)
        external
        view
        returns (bytes4)
    {
        _checkWanted(sender);
        return this.onERC1155Received.selector;
    }

    /// @notice Takes outcome tokens only while it makes them itself.
    function onERC1155BatchReceived(
        address sender,
        address,
        uint256[] calldata,
        uint256[] calldata,
        bytes calldata
    ) external view returns (bytes4) {
        _checkWanted(sender);
        return this.onERC1155BatchReceived.selector;
    }

    /// @notice Says which interfaces there are.
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == type(IERC1155Receiver).interfaceId || id == type(IERC165).interfaceId;
    }

    // ----- inside --------------------------------------------------------------------------------

    function _balance(address wallet, uint256 asset) private view returns (uint256) {
        return asset == COLLATERAL ? _accounts[wallet].collateral : _tokens[wallet][asset];
    }

    function _set(address wallet, uint256 asset, uint256 balance) private {
        if (asset == COLLATERAL) _accounts[wallet].collateral = balance.toUint192();
        else _tokens[wallet][asset] = balance;
    }

    function _credit(address wallet, uint256 asset, uint256 amount) internal {
        _set(wallet, asset, _balance(wallet, asset) + amount);
    }

    function _debit(address wallet, uint256 asset, uint256 amount) internal {
        uint256 balance = _balance(wallet, asset);
        if (amount > balance) revert InsufficientEscrow(wallet, asset, balance, amount);
        _set(wallet, asset, balance - amount);
    }

    function _request(address wallet, uint256 asset, uint256 amount) private {
        uint256 balance = _balance(wallet, asset);
        if (amount > balance) revert InsufficientEscrow(wallet, asset, balance, amount);
        uint256 from = amount == 0 ? 0 : block.timestamp + DELAY;
        _requests[wallet][asset] = Request(amount.toUint192(), from.toUint64());
        emit WithdrawalRequested(wallet, asset, amount, from);
    }

    function _checkStray(uint256 amount, uint256 balance, uint256 kept) private pure {
        uint256 most = Math.saturatingSub(balance, kept);
        if (amount > most) revert NotStray(amount, most);
    }

    function _checkWanted(address sender) private view {
        if (msg.sender != address(tokens) || sender != address(this)) revert NotWanted(sender);
    }
}
