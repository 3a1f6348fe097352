// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";

/// @title Roles: the operator settles, the fee wallet gets the fees, the pauser stops settling, and
/// the owner appoints all of them.
/// @notice Another operator or fee wallet takes effect after OWNER_DELAY, which is longer than the
/// delay of makers: they can leave before it does.
abstract contract Operated is Ownable2Step, Pausable {
    /// @notice A role: the present holder, and another one that replaces it from a time on, in
    /// seconds; 0 is never.
    struct Role {
        address present;
        uint64 from;
        address next;
    }

    /// @notice From a time on, in seconds, an account is the operator. The last such event counts.
    event OperatorSet(address indexed operator, uint256 from);
    /// @notice From a time on, in seconds, a wallet gets the fees. The last such event counts.
    event FeeWalletSet(address indexed wallet, uint256 from);
    event PauserSet(address indexed pauser);

    error NotOperator(address sender);
    error NotPauser(address sender);
    error NoOwner();
    error ZeroAddress();

    /// @notice After how many seconds another operator or fee wallet takes effect.
    uint256 public constant OWNER_DELAY = 1 days;

    Role private _operator;
    Role private _feeWallet;
    /// @notice The account that, besides the owner, may pause.
    address public pauser;

    constructor(address owner_, address operator_, address feeWallet_, address pauser_)
        Ownable(owner_)
    {
        _operator.present = _notZero(operator_);
        _feeWallet.present = _notZero(feeWallet_);
        emit OperatorSet(operator_, block.timestamp);
        emit FeeWalletSet(feeWallet_, block.timestamp);
        _setPauser(pauser_);
    }

    // ----- changes -------------------------------------------------------------------------------

    /// @notice Stops settling; cancellations, revocations and withdrawals go on.
    /// @dev Without an owner nothing could end it.
    function pause() external {
        if (msg.sender != pauser && msg.sender != owner()) revert NotPauser(msg.sender);
        if (owner() == address(0)) revert NoOwner();
        _pause();
    }

    /// @notice Resumes settling.
    function unpause() external onlyOwner {
        _unpause();
    }

    /// @notice Appoints an operator after OWNER_DELAY. Naming the present one withdraws an
    /// announcement.
    function setOperator(address operator_) external onlyOwner {
        emit OperatorSet(operator_, _announce(_operator, operator_));
    }

    /// @notice Changes the fee wallet after OWNER_DELAY. Naming the present one withdraws an
    /// announcement.
    function setFeeWallet(address wallet) external onlyOwner {
        emit FeeWalletSet(wallet, _announce(_feeWallet, wallet));
    }

    /// @notice Appoints the pauser, at once.
    function setPauser(address pauser_) external onlyOwner {
        _setPauser(pauser_);
    }

    /// @notice Gives up ownership, which is impossible while settling is paused.
    function renounceOwnership() public override whenNotPaused {
        super.renounceOwnership();
    }

    // ----- views ---------------------------------------------------------------------------------

    /// @notice The account that may settle.
    function operator() public view returns (address) {
        return _holder(_operator);
    }

    /// @notice The wallet that gets the fees.
    function feeWallet() public view returns (address) {
        return _holder(_feeWallet);
    }

    /// @notice The announced operator and fee wallet, and from when on they count; 0 is never.
    function announced()
        external
        view
        returns (address operator_, uint256 operatorFrom, address wallet, uint256 walletFrom)
    {
        return (_operator.next, _operator.from, _feeWallet.next, _feeWallet.from);
    }

    // ----- inside --------------------------------------------------------------------------------

    function _announce(Role storage role, address next) private returns (uint256 from) {
        address present = _holder(role);
        role.present = present;
        bool isPresent = _notZero(next) == present;
        from = isPresent ? block.timestamp : block.timestamp + OWNER_DELAY;
        role.from = isPresent ? 0 : uint64(from);
        role.next = isPresent ? address(0) : next;
    }

    function _holder(Role storage role) private view returns (address) {
        uint256 from = role.from;
        return from != 0 && block.timestamp >= from ? role.next : role.present;
    }

    function _setPauser(address pauser_) private {
        pauser = pauser_;
        emit PauserSet(pauser_);
    }

    function _notZero(address account) private pure returns (address) {
        if (account == address(0)) revert ZeroAddress();
        return account;
    }
}
