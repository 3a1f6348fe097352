// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";

/// @title Who settles, who gets the fees, and an owner who names both and can stop settling.
abstract contract Operated is Ownable2Step, Pausable {
    event OperatorSet(address operator);
    event FeeWalletSet(address wallet);

    error NotOperator(address sender);

    /// @notice Who may settle.
    address public operator;
    /// @notice Who gets the fees.
    address public feeWallet;

    constructor(address owner_, address operator_) Ownable(owner_) {
        _setOperator(operator_);
        _setFeeWallet(operator_);
    }

    /// @notice Stops settling; cancelling and taking back go on.
    function pause() external onlyOwner {
        _pause();
    }

    /// @notice Lets settling go on.
    function unpause() external onlyOwner {
        _unpause();
    }

    /// @notice Says who may settle.
    function setOperator(address operator_) external onlyOwner {
        _setOperator(operator_);
    }

    /// @notice Says who gets the fees.
    function setFeeWallet(address wallet) external onlyOwner {
        _setFeeWallet(wallet);
    }

    function _setOperator(address operator_) private {
        operator = operator_;
        emit OperatorSet(operator_);
    }

    function _setFeeWallet(address wallet) private {
        feeWallet = wallet;
        emit FeeWalletSet(wallet);
    }
}
