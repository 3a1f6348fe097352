// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// @title The stablecoin of a test chain: an ERC-20 with permit that its minter makes at will.
/// @notice It is worth nothing. The deployer is the minter, for good.
contract TestDollar is ERC20Permit {
    /// @notice The sender is not the minter.
    error NotMinter(address sender);

    /// @notice The account that may mint.
    address public immutable minter;

    uint8 private immutable _decimals;

    /// @param decimals_ the decimals of an amount; USDC has 6.
    constructor(uint8 decimals_) ERC20("Test Dollar", "tUSD") ERC20Permit("Test Dollar") {
        minter = msg.sender;
        _decimals = decimals_;
    }

    /// @notice Makes new dollars.
    /// @param to receiver of the dollars.
    /// @param amount amount in smallest units.
    function mint(address to, uint256 amount) external {
        if (msg.sender != minter) revert NotMinter(msg.sender);
        _mint(to, amount);
    }

    /// @notice Decimals of an amount.
    function decimals() public view override returns (uint8) {
        return _decimals;
    }
}
