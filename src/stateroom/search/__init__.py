"""Pure ranking: how texts and vectors become scores that are the same on every back end."""
