// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title The stablecoin of a test chain: an ERC-20 of 6 decimals that its minter makes at will.
/// @notice It is worth nothing. Whoever deploys it is the minter, for good.
contract TestDollar is ERC20 {
    /// @notice Somebody else than the minter tried to mint.
    error NotMinter(address sender);

    /// @notice Who may mint.
    address public immutable minter;

    constructor() ERC20("Test Dollar", "tUSD") {
        minter = msg.sender;
    }

    /// @notice Makes new dollars.
    /// @param to who gets them.
    /// @param amount how many, in millionths.
    function mint(address to, uint256 amount) external {
        if (msg.sender != minter) revert NotMinter(msg.sender);
        _mint(to, amount);
    }

    /// @notice How many decimals an amount has.
    function decimals() public pure override returns (uint8) {
        return 6;
    }
}
