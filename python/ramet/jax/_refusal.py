class Refusal(Exception):
    """Why a primitive with these parameters has no ops; its text follows the primitive's name."""
