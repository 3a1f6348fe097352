// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

/// @title A stablecoin of 6 decimals as an ERC-20 of 18, with permit (EIP-2612).
/// @notice Each token is backed by the same worth of stablecoin in this contract, which nobody can
/// take but by unwrapping. There is no owner. The stablecoin must move exactly what it is told to:
/// one that keeps a fee would leave tokens without backing.
contract WrappedCollateral is ERC20Permit {
    using SafeERC20 for IERC20Metadata;

    /// @notice The stablecoin has not 6 decimals.
    error WrongDecimals(uint8 decimals);
    /// @notice The amount is no multiple of the smallest unit of the stablecoin.
    error NotAMultiple(uint256 amount, uint256 unit);

    /// @notice How many wei of this token one smallest unit of the stablecoin is.
    uint256 public constant UNIT = 10 ** 12;
    /// @notice What backs it.
    IERC20Metadata public immutable stablecoin;

    constructor(IERC20Metadata stablecoin_)
        ERC20("Wrapped Test Dollar", "wtUSD")
        ERC20Permit("Wrapped Test Dollar")
    {
        uint8 found = stablecoin_.decimals();
        if (found != 6) revert WrongDecimals(found);
        stablecoin = stablecoin_;
    }

    /// @notice Takes stablecoin from the sender, who has approved it, and credits tokens.
    /// @param to who gets the tokens.
    /// @param amount how much, in the stablecoin's own smallest units.
    function wrap(address to, uint256 amount) external {
        _mint(to, amount * UNIT);
        stablecoin.safeTransferFrom(msg.sender, address(this), amount);
    }

    /// @notice Burns tokens of the sender and pays stablecoin out.
    /// @param to who gets the stablecoin.
    /// @param amount how many tokens, in wei of 18 decimals; a multiple of UNIT.
    function unwrap(address to, uint256 amount) external {
        if (amount % UNIT != 0) revert NotAMultiple(amount, UNIT);
        if (to == address(this)) revert ERC20InvalidReceiver(to);
        _burn(msg.sender, amount);
        stablecoin.safeTransfer(to, amount / UNIT);
    }
}
