// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

/// @title A stablecoin of 0 to 18 decimals as an ERC-20 of 18, with permit (EIP-2612).
/// @notice Each token is backed by the same worth of stablecoin in this contract, which leaves it
/// by unwrapping alone. There is no owner. A stablecoin that keeps a fee of transfers cannot be
/// wrapped; one that changes balances by itself must not be: its tokens could lose their backing.
contract WrappedCollateral is ERC20Permit {
    using SafeERC20 for IERC20Metadata;

    /// @notice The stablecoin has other decimals than the deployer expects.
    error WrongDecimals(uint8 decimals, uint8 expected);
    /// @notice The stablecoin has more than 18 decimals.
    error TooManyDecimals(uint8 decimals);
    /// @notice The amount is no multiple of the smallest unit of the stablecoin.
    error NotAMultiple(uint256 amount, uint256 unit);
    /// @notice A transfer of stablecoin to this contract has added another amount.
    error WrongAmount(uint256 received, uint256 expected);

    /// @notice Wei of this token for one smallest unit of the stablecoin.
    uint256 public immutable UNIT;
    /// @notice The stablecoin that backs the tokens.
    IERC20Metadata public immutable stablecoin;

    /// @param stablecoin_ the stablecoin.
    /// @param decimals_ its decimals; compared with those that it states.
    /// @param name_ name of this token, also in the domain of permits.
    /// @param symbol_ symbol of this token.
    constructor(
        IERC20Metadata stablecoin_,
        uint8 decimals_,
        string memory name_,
        string memory symbol_
    ) ERC20(name_, symbol_) ERC20Permit(name_) {
        uint8 found = stablecoin_.decimals();
        if (found != decimals_) revert WrongDecimals(found, decimals_);
        if (found > decimals()) revert TooManyDecimals(found);
        UNIT = 10 ** (decimals() - found);
        stablecoin = stablecoin_;
    }

    /// @notice Takes stablecoin from the sender, who has approved it, and credits tokens.
    /// @param to receiver of the tokens.
    /// @param amount amount in the stablecoin's own smallest units.
    function wrap(address to, uint256 amount) external {
        _mint(to, amount * UNIT);
        uint256 before = stablecoin.balanceOf(address(this));
        stablecoin.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = stablecoin.balanceOf(address(this)) - before;
        if (received != amount) revert WrongAmount(received, amount);
    }

    /// @notice Burns tokens of the sender and pays stablecoin out.
    /// @param to receiver of the stablecoin.
    /// @param amount amount of tokens, in wei of 18 decimals; a multiple of UNIT.
    function unwrap(address to, uint256 amount) external {
        if (amount % UNIT != 0) revert NotAMultiple(amount, UNIT);
        if (to == address(this)) revert ERC20InvalidReceiver(to);
        _burn(msg.sender, amount);
        stablecoin.safeTransfer(to, amount / UNIT);
    }
}
